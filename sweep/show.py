"""What the commands print. Plain text: it reads the same on a terminal, in a log and in a pipe."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models import MODELS
from results.store import Store
from results.words import counted, duration, format_value, plural
from sweep.errors import shown
from sweep.plan import Plan, derived, product_line
from sweep.run import Outcome
from sweep.study import Study, study_names
from sweep.trial import DEFAULTS
from sweep.work import available_threads
from tasks import TASK_NAMES, TASKS

if TYPE_CHECKING:  # they load torch, or scipy
    from results.compare import Comparison
    from sweep.bench import Ceilings, Reached
    from sweep.executors import Place
    from sweep.folders import FolderPlan

SHOWN_DERIVED = 4
"""Lines of each kind of derived value that a plan shows; --json has all."""


def say(text: str) -> None:
    """Prints a line. When nobody reads any more, what follows goes nowhere: `sweep list | head` is no failure, and a
    run goes on."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_list() -> None:
    """Studies, tasks and models, a line each."""
    say("studies")
    _columns((name, f"{study.size:,} trials", study.title) for name, study in _studies())
    say("\ntasks")
    _columns((name, _task_summary(name)) for name in TASK_NAMES)
    say("\nmodels")
    _columns((name, ", ".join(f"{part} {shown(value)}" for part, value in MODELS[name].items())) for name in MODELS)


def _studies() -> Iterable[tuple[str, Study]]:
    return ((name, Study.load(name)) for name in study_names())


def _task_summary(name: str) -> str:
    parts = TASK_NAMES[name]
    task = TASKS[parts["task"]]
    length, (trivial, accuracy) = DEFAULTS["length"], task.baseline(DEFAULTS["length"], task.vocabulary)
    chance = task.chance(length, task.vocabulary)
    return (
        f"{task.summary}; read as {parts.get('readout', task.readouts[0])}; "
        f"at length {length} and vocabulary {task.vocabulary} chance is {chance:.3g}, {trivial} {accuracy:.3g}"
    )


def _columns(rows: Iterable[Sequence[str]]) -> None:
    rows = [list(row) for row in rows]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(len(rows[0]) if rows else 0)]
    for row in rows:
        say("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show_plan(plan: Plan, store: Path | str) -> None:
    """The counts, the packs, what follows from what, and the cost."""
    study = plan.study
    say(f"{study.name}: {study.title}")
    blocks = product_line(study)
    for line in blocks:
        say(f"  {line}")
    if len(blocks) > 1 or study.points_count != plan.trials:
        say(f"  together {plan.trials:,} different trials (of {study.points_count:,} points)")
    say(f"in {store}{absent(store)}")
    say(f"  {_counts(plan.counts, plan.missing)}")
    if plan.others:
        say(f"  and {counted(plan.others, 'trial')} of other studies")
    show_problems(plan.problems)
    if plan.to_run is None or plan.packs is None:
        say("to run: not expanded, the study is larger than --max-trials")
        return
    say(f"to run: {counted(len(plan.to_run), 'trial')}")
    if plan.failed and not any(trial.id in plan.attempts for trial in plan.to_run):
        say(f"  --retry-failed runs the {plan.failed:,} failed again")
    if not plan.to_run:
        return
    sizes = [len(pack) for pack in plan.packs]
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    say(f"  {counted(len(sizes), 'pack')} of {span} {plural('trial', max(sizes))}")
    for name, lines in derived(plan.to_run).items():
        more = f" … and {len(lines) - SHOWN_DERIVED} more" if len(lines) > SHOWN_DERIVED else ""
        say(f"  {name}: " + "; ".join(lines[:SHOWN_DERIVED]) + more)
    if plan.estimate.seconds is None:
        say(f"  cost: unknown; basis: {plan.estimate.basis}")
    else:
        say(f"  cost: {duration(plan.estimate.seconds)} of one worker, about; basis: {plan.estimate.basis}")


def show_folder(plan: "FolderPlan", store: Path | str) -> None:
    """A folder's studies, what they have together, and what that costs here and on a GPU."""
    say(f"{plan.name}: {counted(len(plan.sizes), 'study')}")
    _columns((name, f"{size:,} trials") for name, size in plan.sizes.items())
    points = sum(plan.sizes.values())
    say(
        f"together {points:,} trials, {plan.trials:,} different"
        if points > plan.trials
        else f"together {points:,} trials"
    )
    say(f"in {store}{absent(store)}")
    say(f"  {_counts(plan.counts, plan.missing)}")
    if not plan.missing:
        return
    workers = available_threads()
    if plan.estimate.seconds is None:
        say(f"  cost: unknown; basis: {plan.estimate.basis}")
    else:
        here = duration(plan.estimate.seconds / workers)
        say(f"  cost: {here} of this machine's {counted(workers, 'worker')}, about; basis: {plan.estimate.basis}")
    assert plan.on_gpu.seconds is not None
    say(f"  cost: {duration(plan.on_gpu.seconds)} of one H200, about; basis: docs/performance.md")


def _counts(counts: dict[str, int], missing: int) -> str:
    parts = [f"{counts.get('ok', 0):,} ok"]
    parts += [f"{counts[status]:,} {status}" for status in ("diverged", "failed", "oom") if counts.get(status)]
    return ", ".join([*parts, f"{missing:,} missing"])


def absent(store: Path | str) -> str:
    """What is said behind a folder that does not exist; a bucket is not asked."""
    return "" if isinstance(store, str) or store.exists() else " (not there yet)"


def show_status(numbers: dict[str, Any], store: Store) -> None:
    """How far a study is."""
    counts = _counts(numbers, numbers["missing"])
    say(f"{numbers['study']}: {counted(numbers['trials'], 'trial')} in {store.path}{absent(store.path)}: {counts}")
    show_problems(store.problems)


def show_problems(problems: Iterable[str]) -> None:
    """The store's bad shards, where one sees them."""
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)


def show_nothing_to_run(plan: Plan, store: Path | str) -> None:
    """Running twice is running once, and says so."""
    show_problems(plan.problems)
    say(f"nothing to run: all {plan.trials:,} trials of {plan.study.name} are in {store} ({_counts(plan.counts, 0)})")
    if plan.failed:
        say(f"{plan.failed:,} of them failed; --retry-failed runs those again")


def show_start(plan: Plan, store: Path | str, at: "Place") -> None:
    """What a run is about to do."""
    assert plan.to_run is not None and plan.packs is not None
    show_problems(plan.problems)
    done = plan.trials - len(plan.to_run)
    already = f" ({done:,} are there)" if done else ""
    trials, packs = counted(len(plan.to_run), "trial"), counted(len(plan.packs), "pack")
    say(f"{plan.study.name}: running {trials}{already} in {packs} on {at}, into {store}")


def show_outcome(plan: Plan, outcome: Outcome, store: Path | str, command: str) -> None:
    """How a run ended, and what to do next."""
    assert plan.to_run is not None
    kinds = {
        "ok": outcome.done - outcome.diverged - outcome.failed,
        "diverged": outcome.diverged,
        "failed": outcome.failed,
    }
    told = [f"{counted(outcome.done, 'trial')} in {duration(outcome.seconds)}"]
    told += [f"{count:,} {kind}" for kind, count in kinds.items() if count]
    say(f"{plan.study.name}: " + ", ".join(told))
    for error, count in sorted(outcome.errors.items(), key=lambda item: -item[1]):
        print(f"  {count:,} × {error}", file=sys.stderr)
    left = counted(len(plan.to_run) - outcome.done, "trial")
    if outcome.stopped == "failures":
        print(f"stopped after {outcome.failed:,} failed; {left} not run", file=sys.stderr)
    if outcome.stopped == "interrupted":
        print(f"interrupted; {left} left. To go on: {command}", file=sys.stderr)
    elif outcome.failed:
        print("tracebacks are in the report; --retry-failed runs the failed ones again", file=sys.stderr)
    if outcome.stopped is None:
        where = f" --store {store}" if store != Path("store") else ""
        say(f"to look at it: sweep report {plan.study.given}{where}")


def show_ceilings(ceilings: "Ceilings", device: str) -> None:
    """What the device can do."""
    matrix, copy = ceilings.matrix_flops / 1e9, ceilings.copy_bytes / 1e9
    say(f"ceilings of {device}: {matrix:,.0f} GFLOP/s in matrix products, {copy:,.1f} GB/s in copying")


BENCH_ROW = "{:6} {:5} {:>6} {:>7} {:>5} {:>18} {:>11} {:>9} {:>9} {:>11} {:>11}"


def show_bench(shape: "Reached", first: bool) -> None:
    """What training reaches for one shape, a line; before the first, the heads of the columns."""
    heads = ("task", "model", "width", "length", "pack", "ms a model & step", "plain loop", "speed-up", "GFLOP/s",
             "of ceiling", "µs a token")  # fmt: skip
    if first:
        say(BENCH_ROW.format(*heads))
    say(
        BENCH_ROW.format(
            shape.task,
            shape.model,
            shape.width,
            shape.length,
            shape.pack_width,
            f"{1000 * shape.seconds:.1f}",
            f"{1000 * shape.plain_seconds:.1f}",
            f"{shape.speedup:.1f}×",
            f"{shape.flops_per_second / 1e9:.1f}",
            f"{shape.flops_per_second / shape.ceiling_flops:.0%}",
            f"{1e6 * shape.seconds / shape.tokens:.2f}",
        ),
    )


def show_comparison(comparison: "Comparison", x: str) -> None:
    """Ours beside published cells, and each model's share of those within."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    headings = ("model", x.replace("_", " "), "learning rate", "ours", "published", "difference (95%)", "verdict")
    table = Table(*headings, box=box.SIMPLE)
    for row in comparison.table:
        ours = "" if row["ours"] is None else f"{row['ours']:.3f} (n {row['n']})"
        theirs = f"{row['theirs']:.3f} ({row['theirs_lowest']:.3f} to {row['theirs_highest']:.3f})"
        difference = "" if row["difference"] is None else f"{row['difference']:+.3f}"
        difference += "" if row["low"] is None else f" ({row['low']:+.3f} to {row['high']:+.3f})"
        place = (format_value(row[x]), format_value(row["learning_rate"]))
        table.add_row(row["model"], *place, ours, theirs, difference, row["verdict"])
    Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(table)
    for note in comparison.notes:
        say(note)
    for row in comparison.shares:
        run = sum(row[name] for name in ("within", "above", "below", "diverged"))
        say(
            f"{row['model']}: {row['within']} of {run} cells within, {row['above']} above, {row['below']} below"
            + "".join(f", {row[name]} {name}" for name in ("diverged", "failed", "not run") if row[name])
            + (f"; mean difference {row['difference']:+.3f}" if row["difference"] is not None else "")
        )

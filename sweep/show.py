"""What the commands print. Plain text: it reads the same on a terminal, in a log and in a pipe."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from models import MODELS
from results.store import Store
from results.words import duration
from sweep.errors import shown
from sweep.plan import Plan, derived, plural, product_line
from sweep.run import Outcome
from sweep.study import Study, study_names
from tasks import TASK_NAMES, TASKS

SHOWN_DERIVED = 4
"""Lines of each kind of derived value that a plan shows; --json has all."""


def show_list() -> None:
    """Studies, tasks and models, a line each."""
    print("studies")
    _columns((name, f"{len(study):,} trials", study.title) for name, study in _studies())
    print("\ntasks")
    _columns((name, _task_summary(name)) for name in TASK_NAMES)
    print("\nmodels")
    _columns((name, ", ".join(f"{part} {shown(value)}" for part, value in MODELS[name].items())) for name in MODELS)


def _studies() -> Iterable[tuple[str, Study]]:
    return ((name, Study.load(name)) for name in study_names())


def _task_summary(name: str) -> str:
    parts = TASK_NAMES[name]
    task = TASKS[parts["task"]]
    return f"{task.summary}; read as {parts.get('readout', task.readouts[0])}"


def _columns(rows: Iterable[Sequence[str]]) -> None:
    rows = [list(row) for row in rows]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(len(rows[0]) if rows else 0)]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def show_plan(plan: Plan, store: Path) -> None:
    """The counts, the packs, what follows from what, and the cost."""
    study = plan.study
    print(f"{study.name}: {study.title}")
    blocks = product_line(study)
    for line in blocks:
        print(f"  {line}")
    if len(blocks) > 1 or study.points_count != plan.trials:
        print(f"  together {plan.trials:,} different trials (of {study.points_count:,} points)")
    print(f"in {store}")
    print(f"  {_counts(plan.counts, plan.missing)}")
    if plan.others:
        print(f"  and {plan.others:,} {'trial' if plan.others == 1 else 'trials'} of other studies")
    show_problems(plan.problems)
    if plan.to_run is None or plan.packs is None:
        print(f"to run: not expanded ({plan.estimate.basis})")
        return
    print(f"to run: {len(plan.to_run):,} trials")
    if not plan.to_run:
        return
    sizes = [len(pack) for pack in plan.packs]
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    print(f"  {len(sizes):,} {plural('pack', len(sizes))} of {span} trials")
    for name, lines in derived(plan.to_run).items():
        more = f" … and {len(lines) - SHOWN_DERIVED} more" if len(lines) > SHOWN_DERIVED else ""
        print(f"  {name}: " + "; ".join(lines[:SHOWN_DERIVED]) + more)
    if plan.estimate.seconds is None:
        print(f"  cost: unknown; basis {plan.estimate.basis}")
    else:
        print(f"  cost: about {duration(plan.estimate.seconds)} of one worker; basis: {plan.estimate.basis}")


def _counts(counts: dict[str, int], missing: int) -> str:
    parts = [f"{counts.get('ok', 0):,} ok"]
    parts += [f"{counts[status]:,} {status}" for status in ("diverged", "failed", "oom") if counts.get(status)]
    return ", ".join([*parts, f"{missing:,} missing"])


def show_status(numbers: dict[str, Any], store: Store) -> None:
    """How far a study is."""
    print(f"{numbers['study']}: {numbers['trials']:,} trials in {store.path}: {_counts(numbers, numbers['missing'])}")
    show_problems(store.problems)


def show_problems(problems: Iterable[str]) -> None:
    """The store's bad shards, where one sees them."""
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)


def show_nothing_to_run(plan: Plan, store: Path) -> None:
    """Running twice is running once, and says so."""
    print(f"nothing to run: all {plan.trials:,} trials of {plan.study.name} are in {store} ({_counts(plan.counts, 0)})")
    if plan.failed:
        print(f"{plan.failed:,} of them failed; --retry-failed runs those again")


def show_start(plan: Plan, store: Path, device: str, threads: int) -> None:
    """What a run is about to do."""
    assert plan.to_run is not None and plan.packs is not None
    show_problems(plan.problems)
    done = plan.trials - len(plan.to_run)
    already = f" ({done:,} are done)" if done else ""
    where = f"{device}, {threads} {plural('thread', threads)}" if device == "cpu" else device
    print(
        f"{plan.study.name}: running {len(plan.to_run):,} trials{already} in {len(plan.packs):,} "
        f"{plural('pack', len(plan.packs))} on {where}, into {store}",
        flush=True,
    )


def show_outcome(plan: Plan, outcome: Outcome, store: Path, command: str) -> None:
    """How a run ended, and what to do next."""
    took = duration(outcome.seconds)
    parts = [f"{outcome.done:,} trials in {took}"]
    parts += [f"{outcome.diverged:,} diverged"] if outcome.diverged else []
    parts += [f"{outcome.failed:,} failed"] if outcome.failed else []
    print(f"{plan.study.name}: " + ", ".join(parts))
    for error, count in sorted(outcome.errors.items(), key=lambda item: -item[1]):
        print(f"  {count:,} × {error}", file=sys.stderr)
    assert plan.to_run is not None
    left = len(plan.to_run) - outcome.done
    if outcome.stopped == "failures":
        print(f"stopped after {outcome.failed:,} failed; {left:,} trials were not run", file=sys.stderr)
    if outcome.stopped == "interrupted":
        print(f"interrupted; {left:,} trials are left. To go on: {command}", file=sys.stderr)
    elif outcome.failed:
        print("failed trials are kept apart; --retry-failed runs them again", file=sys.stderr)
    if outcome.stopped is None:
        where = f" --store {store}" if store != Path("store") else ""
        print(f"to look at it: sweep report {plan.study.given}{where}")


def show_bench(measured: Sequence[dict[str, Any]]) -> None:
    """What training reaches, a line a shape."""
    head = ("task", "model", "width", "pack", "ms a model and step", "GFLOP/s")
    rows = [
        (
            entry["task"],
            entry["model"],
            str(entry["width"]),
            str(entry["pack_width"]),
            f"{1000 * entry['seconds_per_step']:.1f}",
            f"{entry['flops_per_second'] / 1e9:.1f}",
        )
        for entry in measured
    ]
    _columns([head, *rows])
    print("kept for the estimates of `sweep plan`")

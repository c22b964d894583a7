"""The `sweep` command. One short function a command; what they do is elsewhere."""

import io
import json
import os
import signal
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from results import StoreError, StoreUnreachable
from sweep import cli_results
from sweep.errors import INFRASTRUCTURE, INTERRUPTED, OK, SOME_FAILED, USAGE, InfrastructureError, UsageError
from sweep.options import (
    MOST_TRIALS,
    STORE,
    CompileOption,
    DeviceOption,
    JsonOption,
    MaxTrialsOption,
    RetryOption,
    SetOption,
    StoreOption,
    StudyArgument,
    ThreadsOption,
    WidthOption,
    command_line,
    store_path,
)

USAGE_ERROR: Any = typer.BadParameter.__mro__[2]
"""What typer raises for a wrong command line; it has its own copy of click and does not name this class."""

app = typer.Typer(
    help="Sweeps over thousands of small sequence models: run what is missing, nothing twice, and look at heatmaps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

cli_results.add_to(app)


@app.command("list")
def list_command() -> None:
    """Show the studies, tasks and models there are."""
    from sweep.show import show_list

    show_list()


@app.command()
def plan(
    study: StudyArgument,
    store: StoreOption = STORE,
    sets: SetOption = [],  # noqa: B006  typer copies it
    retry_failed: RetryOption = False,
    max_trials: MaxTrialsOption = MOST_TRIALS,
    pack_width: WidthOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a study has, what is done, and what running the rest would cost. Writes nothing."""
    from results.store import Store
    from sweep.folders import plan_folder, studies_in
    from sweep.plan import make_plan
    from sweep.show import say, show_folder, show_plan
    from sweep.study import Study
    from sweep.work import available_threads

    if studies_in(study):
        together = plan_folder(study, Store(store_path(store)), sets)
        say(json.dumps(together.as_json())) if as_json else show_folder(together, store_path(store))
        return
    made = make_plan(
        Study.load(study, sets),
        Store(store_path(store)),
        retry_failed=retry_failed,
        max_trials=max_trials,
        pack_width=pack_width,
        workers=available_threads(),
    )
    say(json.dumps(made.as_json())) if as_json else show_plan(made, store_path(store))


@app.command()
def status(
    study: StudyArgument,
    store: StoreOption = STORE,
    sets: SetOption = [],  # noqa: B006
    max_trials: MaxTrialsOption = MOST_TRIALS,
    as_json: JsonOption = False,
) -> None:
    """Show how far a study is, from the store alone."""
    from results.store import Store
    from sweep.plan import status_counts, status_json
    from sweep.show import say, show_status
    from sweep.study import Study

    loaded, opened = Study.load(study, sets), Store(store_path(store))
    counts = status_counts(loaded, opened, max_trials)
    numbers = status_json(loaded, loaded.size, counts, opened.problems)
    say(json.dumps(numbers)) if as_json else show_status(numbers, opened)


@app.command()
def run(
    study: StudyArgument,
    store: StoreOption = STORE,
    sets: SetOption = [],  # noqa: B006
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    retry_failed: RetryOption = False,
    max_failures: Annotated[int | None, typer.Option(help="Stop when so many trials have failed.", min=1)] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first trial that fails.")] = False,
    max_trials: MaxTrialsOption = MOST_TRIALS,
    pack_width: WidthOption = None,
    compile: CompileOption = "auto",
    executor: Annotated[
        str, typer.Option(help="inline: in this process; ray: in workers; auto: workers where there is room for some.")
    ] = "auto",
    workers: Annotated[
        int | None, typer.Option(help="Workers at most; by default one a core, or a GPU.", min=1)
    ] = None,
    workers_per_gpu: Annotated[int, typer.Option(help="Workers that share a GPU.", min=1, max=64)] = 1,
    address: Annotated[str | None, typer.Option(help="Ray cluster to join: HOST:PORT, or auto.")] = None,
    wait_for_resources: Annotated[bool, typer.Option(help="Wait for what the cluster does not have yet.")] = False,
    worker_memory: Annotated[
        int | None, typer.Option(help="MiB that a worker may allocate, itself included (some 500).", min=512)
    ] = None,
) -> None:
    """Run what a study is missing. Running it again goes on where it stopped."""
    from results.store import Store
    from sweep.device import check_precision
    from sweep.executors import place
    from sweep.plan import check_size, make_plan
    from sweep.run import Limits
    from sweep.run import run as run_plan
    from sweep.show import show_nothing_to_run, show_outcome, show_start
    from sweep.study import Study
    from sweep.work import COMPILE_MODES, available_threads, prepare

    if compile not in COMPILE_MODES:
        raise UsageError(f"--compile {compile}: must be one of {', '.join(COMPILE_MODES)}")
    loaded, opened = Study.load(study, sets), Store(store_path(store))
    options: dict[str, Any] = {"retry_failed": retry_failed, "max_trials": max_trials, "pack_width": pack_width}
    made = make_plan(loaded, opened, **options, workers=workers or available_threads())
    check_size(made, max_trials)
    if not made.to_run:
        show_nothing_to_run(made, opened.path)
        raise typer.Exit(SOME_FAILED if made.failed else OK)
    opened.check_writable()
    alone = executor == "auto" and address is None and len(made.packs or ()) == 1
    at = place(
        executor="inline" if alone else executor,
        device=device,
        workers=None if alone else workers,
        threads=checked_threads(threads) if address is None else threads,
        workers_per_gpu=workers_per_gpu,
        address=address,
        wait=wait_for_resources,
        memory=worker_memory and worker_memory * 2**20,
    )
    check_precision(made.to_run, at.device)
    if at.device != "cpu":
        made = made.cut_again(pack_width, at.pack_memory, at.workers or len(made.to_run))
    show_start(made, opened.path, at)
    prepare(at.device)
    run_options: dict[str, Any] = {"device": at.device, "threads": at.threads, "compile": compile}
    limits = Limits(1 if fail_fast else max_failures)
    outcome = run_plan(made, opened, at.start(bool(loaded.plugins)), limits=limits, **run_options)
    show_outcome(made, outcome, opened.path, command_line())
    if outcome.stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if outcome.failed:
        raise typer.Exit(SOME_FAILED)


@app.command()
def submit(
    study: StudyArgument,
    store: StoreOption = STORE,
    sets: SetOption = [],  # noqa: B006
    address: Annotated[str | None, typer.Option(help="The cluster's job server: http://HOST:8265.")] = None,
    device: Annotated[str, typer.Option(help="Of a worker: cpu or cuda; auto: the cluster's CPUs.")] = "auto",
    follow: Annotated[bool, typer.Option("--follow", help="Show the log, and end as the job ends.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be submitted, and do nothing.")] = False,
    manifest: Annotated[
        str | None, typer.Option(help="Print a cluster definition for this study.", metavar="kuberay|aws|gcp")
    ] = None,
) -> None:
    """Run a study on a Ray cluster, as a job of it. Submitting twice joins what is running."""
    from sweep.study import Study
    from sweep.submission import prepared, show, show_manifest
    from sweep.submission import submit as submit_run

    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device {device}: on a cluster it is auto, cpu or cuda; a worker sees the GPU it has")
    loaded, named = Study.load(study, sets), str(store_path(store))
    if manifest is not None:
        show_manifest(loaded, sets, named, manifest)
        return
    submission = prepared(loaded, sets, named, address, [] if device == "auto" else ["--device", device])
    show(submission)
    if not dry_run:
        raise typer.Exit(submit_run(submission, follow))


@app.command()
def bench(device: DeviceOption = "auto", threads: ThreadsOption = None, as_json: JsonOption = False) -> None:
    """Measure what training reaches on this machine, and keep it for the estimates of `sweep plan`."""
    from sweep.device import chosen_device
    from sweep.show import say, show_bench, show_ceilings
    from sweep.work import available_threads, prepare, set_up_worker

    on = chosen_device(device)
    set_up_worker(checked_threads(threads) or available_threads())
    prepare(on)
    from sweep.bench import LENGTHS, SHAPES, ceilings, reached, save_calibration

    most, measured = ceilings(on), []
    if not as_json:
        show_ceilings(most, on)
    for shape in [*SHAPES, *LENGTHS]:
        measured.append(reached(shape, on))
        if not as_json:
            show_bench(measured[-1], first=len(measured) == 1)
    save_calibration(measured)
    if as_json:
        shapes = [{**vars(each), "speedup": each.speedup} for each in measured]
        say(json.dumps({"device": on, "ceilings": vars(most), "shapes": shapes}))
    else:
        say("kept for the estimates of `sweep plan`")


def checked_threads(threads: int | None) -> int | None:
    """--threads, if it is no more than this process may use. Raises UsageError."""
    from sweep.work import available_threads

    if threads is not None and threads > available_threads():
        raise UsageError(f"--threads {threads}: this process may use {available_threads()}")
    return threads


def main() -> None:
    """The entry point: runs a command and turns what a person can mend into one line and an exit code."""
    signal.signal(signal.SIGINT, _exit_interrupted)
    warnings.formatwarning = lambda message, *_, **__: f"sweep: {message}\n"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no × shows ? and goes on
    try:
        code = app(prog_name="sweep", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code or OK)
    except StoreUnreachable as error:
        fail(error, INFRASTRUCTURE)
    except (UsageError, StoreError) as error:
        fail(error, USAGE)
    except USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            print(error.format_message())
            sys.exit(USAGE)
        fail(error.format_message(), USAGE)
    except InfrastructureError as error:
        fail(error, INFRASTRUCTURE)
    except OSError as error:
        _discard_output()
        fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""), INFRASTRUCTURE)


def _discard_output() -> None:
    """Lets Python's exit flush what nobody can take."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_interrupted(*_: object) -> NoReturn:
    """Outside of a run there is nothing to save: the first Ctrl-C ends the command, a second cannot hurt its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("sweep: interrupted", file=sys.stderr)
    sys.exit(INTERRUPTED)


def fail(error: Exception | str, code: int) -> NoReturn:
    """Says what is wrong in one line and ends the command."""
    print(f"sweep: {error}", file=sys.stderr)
    sys.exit(code)

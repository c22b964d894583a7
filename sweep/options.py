"""What commands have in common: their options and arguments, in typer's form. Loads neither torch nor pyarrow."""

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from sweep.errors import UsageError

StudyArgument = Annotated[
    str, typer.Argument(help="A study that ships (see `sweep list`), or the path of a .toml file.")
]


StoreOption = Annotated[
    str, typer.Option("--store", help="Folder of results, or s3://… or gs://….", envvar="SWEEP_STORE")
]
SetOption = Annotated[
    list[str],
    typer.Option("--set", help="Replace a value or an axis: width=8,16 or seed={count=2}. May be given several times."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")]
MaxTrialsOption = Annotated[int, typer.Option(help="Larger studies are counted, not run.", min=1, max=10_000_000)]
WidthOption = Annotated[
    int | None, typer.Option(help="At most so many trials in a pack; by default from the shape.", min=1)
]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Also run again what failed or ran out of memory.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
CompileOption = Annotated[
    str, typer.Option(help="Compile the training step: auto (where it pays), on, off.", metavar="auto|on|off")
]
ThreadsOption = Annotated[int | None, typer.Option(help="Processor threads; by default all there are.", min=1)]

STORE = "store"
MOST_TRIALS = 100_000
"""As `sweep.plan.MOST_TRIALS`, which would load pyarrow for `--help`; a test holds them equal."""


def store_path(text: str) -> str | Path:
    """The folder or the bucket that --store names. Raises UsageError."""
    from results.places import BUCKETS

    if not text:
        raise UsageError("--store is empty: name a folder or a bucket")
    if text.startswith(BUCKETS):
        if text[5:6] in ("", "/"):
            raise UsageError(f"--store {text}: name a bucket, as in {text[:5]}BUCKET/PREFIX")
        return text
    if re.match(r"[A-Za-z0-9+.-]{2,}:/", text):
        raise UsageError(f"--store {text}: a store is a folder, or begins with {' or '.join(BUCKETS)}")
    return Path(text).expanduser()


def command_line() -> str:
    """The command as it was given."""
    return shlex.join(["sweep", *sys.argv[1:]])

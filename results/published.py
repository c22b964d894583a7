"""Results that others have published: one row a trained model, to lie beside ours.

The reader is for a clone of OliverRichter/normalized-attention, the code of Richter & Wattenhofer, "Normalized
Attention Without Probability Cage" (arXiv 2005.09561). Results of any other source can be compared too, from a Parquet
file with the columns `NEEDED`.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from results.files import save_atomically
from results.pickles import NotPlain, read_plain
from results.published_sweeps import TASKS, OtherShape, sweep_of, trained_models

COLUMNS = pa.schema(
    [
        ("task", pa.string()),
        ("model", pa.string()),
        ("axis", pa.string()),  # what is swept beside the learning rate
        ("axis_value", pa.float64()),
        ("learning_rate", pa.float64()),
        ("run", pa.int64()),  # 0-based; an unseeded repeat
        # best: the largest over the epochs. final: after the last epoch.
        ("best_eval_accuracy", pa.float64()),
        ("final_eval_accuracy", pa.float64()),
        ("best_train_accuracy", pa.float64()),
        ("final_train_accuracy", pa.float64()),
        ("best_eval_epoch", pa.int64()),  # 1-based epoch of best_eval_accuracy, the first of equals
        # by case on the equalised set, at the training and at the evaluation length; null where the task has none
        *(
            (f"final_{length}case_{case}", pa.float64())
            for length in ("", "eval_")
            for case in ("argmin", "first", "argmax")
        ),
        ("source_commit", pa.string()),  # abbreviated to 7 digits; null where unknown
    ]
)
"""Columns of published results."""

NEEDED = ("task", "model", "axis", "axis_value", "learning_rate", "run", "best_eval_accuracy")
"""Columns that a comparison cannot do without."""

MODELS = {"BERT": "bert", "MTE": "mte", "NAP": "nap", "NON": "non", "sum": "sum", "max": "max"}
"""Our models by the names of their files."""

RESULTS_FOLDER = "paper_results"
"""Where a clone has them."""


class PublishedError(Exception):
    """Published results cannot be read. The message is one line for the person who named them."""


def load_published(path: Path) -> pa.Table:
    """Published results from a Parquet file: those of `COLUMNS` that it has in their types, and whatever else it has.

    Raises:
        PublishedError: no such file, no Parquet, a column of `NEEDED` that is missing or has gaps, one of another type.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0]
        raise PublishedError(f"cannot read published results from {path}: {reason}") from error
    try:
        check_published(table)
    except PublishedError as error:
        raise PublishedError(f"{path}: {error}") from None
    for number, name in enumerate(table.column_names):
        if name in COLUMNS.names:
            table = table.set_column(number, COLUMNS.field(name), table[name].cast(COLUMNS.field(name).type))
    return table


def check_published(table: pa.Table) -> None:
    """Raises PublishedError where a table does not have what a comparison needs: a column of `NEEDED` is missing or has
    gaps, or one of `COLUMNS` has another type."""
    if missing := [name for name in NEEDED if name not in table.column_names]:
        raise PublishedError(f"published results lack the {_columns(missing)}; needed are {', '.join(NEEDED)}")
    if gaps := [name for name in NEEDED if table[name].null_count]:
        raise PublishedError(f"published results have rows without a value in the {_columns(gaps)}")
    for field in COLUMNS:
        if field.name in table.column_names:
            try:
                table[field.name].cast(field.type)
            except pa.ArrowException:
                found = table.schema.field(field.name).type
                raise PublishedError(f"column {field.name} of published results is {found}, not {field.type}") from None


def save_published(table: pa.Table, path: Path) -> None:
    """Saves published results as Parquet, atomically. Raises OSError."""
    save_atomically(path, lambda file: pq.write_table(table, file))


def read_published(folder: Path, skipped: Callable[[str], object] = lambda line: None) -> pa.Table:
    """What a clone's result files hold, a row a trained model: in the order of the files, then of axis values, learning
    rates and runs as they were swept.

    Files are TASK/var_SWEEP/MODEL.pickle in the clone's `paper_results`, or in the folder itself where it has none.
    Runs that are not finished have no row. Nothing that a file says is executed. Takes some seconds a file.

    Args:
        folder: the clone.
        skipped: is told, a line each, what has no rows and why.

    Raises:
        PublishedError: no such folder, no result files in it, a file that holds more than plain data or has another
            shape.
    """
    if not folder.is_dir():
        raise PublishedError(f"{folder} is no folder" if folder.exists() else f"there is no folder {folder}")
    root = folder / RESULTS_FOLDER if (folder / RESULTS_FOLDER).is_dir() else folder
    rows, reasons = [], Counter[str]()
    for path in sorted(root.rglob("*.pickle")):
        if not path.stem.endswith("_params"):
            try:
                found, reason = _rows(path, path.relative_to(root))
            except (NotPlain, OtherShape, OSError) as error:
                raise PublishedError(f"{path}: {error}") from error
            rows += found
            if reason:
                reasons[f"{path.parent.relative_to(folder)}: {reason}"] += 1
    for reason, count in reasons.items():
        skipped(reason if count == 1 else f"{reason} ({count} files)")
    if not rows:
        raise PublishedError(
            f"{folder} holds no result files like {RESULTS_FOLDER}/cases/var_dim/NAP.pickle with finished runs: "
            "it should be a clone of OliverRichter/normalized-attention"
        )
    commit = head_commit(folder.parent if folder.name == RESULTS_FOLDER else folder)
    return pa.Table.from_pylist([row | {"source_commit": commit} for row in rows], COLUMNS)


def _rows(path: Path, place: Path) -> tuple[list[dict[str, Any]], str | None]:
    """The rows of the result file at `place` in its root, and what to say of it where it has not all of them."""
    task = TASKS.get(place.parts[:-2])
    if task is None:
        return [], "no task of this project"
    if path.stem not in MODELS:
        return [], f"{path.stem} is no model of this project"
    sweep = sweep_of(path)
    if sweep is None:
        return [], "no axis of this project"
    runs, planned = trained_models(read_plain(path.read_bytes()), task, sweep)
    names = {"task": task, "model": MODELS[path.stem]}
    unfinished = f"{planned - len(runs):,} of {planned:,} runs of {path.stem} are not finished"
    return [names | run for run in runs], unfinished if len(runs) < planned else None


def head_commit(clone: Path) -> str | None:
    """The commit that a clone's HEAD is at, abbreviated to 7 digits; None where that cannot be told. Reads files of
    `.git` alone: git itself would run what a stranger's clone configures."""
    git = clone / ".git"
    try:
        if git.is_file():  # a worktree or a submodule
            git = clone / git.read_text().removeprefix("gitdir:").strip()
        shared = git / (git / "commondir").read_text().strip() if (git / "commondir").exists() else git
        head = (git / "HEAD").read_text().strip()
        if head.startswith("ref:"):
            head = _commit_of(shared, head.removeprefix("ref:").strip())
    except (OSError, UnicodeDecodeError):
        return None
    return head[:7] if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", head) else None


def _commit_of(git: Path, ref: str) -> str:
    """The commit of a ref, kept in a file of its own or packed with others; "" where there is none. Raises OSError."""
    if (git / ref).is_file():
        return (git / ref).read_text().strip()
    for line in (git / "packed-refs").read_text().splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return ""


def _columns(names: list[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(names)}"

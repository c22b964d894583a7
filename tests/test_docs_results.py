"""docs/results.md: its columns are the schema's, and its queries give what the store gives."""

import re
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from results.schema import CURVES, TRIALS, VERSION_KEY
from results.shards import new_stem
from results.store import Store
from sweep.trial import LATER
from tests.readme import code_blocks
from tests.results.conftest import START, append, curve_rows, trial_row

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
ENGINES = ("DuckDB", "Polars", "pandas")
KEYS = ("model", "width", "learning_rate")


def section(title: str) -> str:
    """The text under one heading of the page."""
    return re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[[*headings()].index(title) + 1]


def headings() -> list[str]:
    return re.findall(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)


def documented(kind: str) -> list[tuple[str, str]]:
    """Name and type of every column in one of the page's tables."""
    cells = re.findall(r"^\| (`.*?) \| (.*?) \|", section(f"`{kind}/`"), flags=re.MULTILINE)
    return [(name, type_) for names, type_ in cells for name in re.findall(r"`(\w+)`", names)]


@pytest.mark.parametrize(("kind", "schema"), [("trials", TRIALS), ("curves", CURVES)])
def test_every_column_is_documented_with_its_type_and_no_other(kind, schema):
    assert documented(kind) == [(field.name, str(field.type)) for field in schema]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with `store`: two models, two widths, two learning rates and three seeds, some of them twice."""
    folder = tmp_path_factory.mktemp("docs")
    store = Store(folder / "store")
    accuracies = {"nap": 0.9, "sum": 0.6}
    rows = [
        trial_row(
            seed,
            task="mode",
            model=model,
            width=width,
            learning_rate=rate,
            accuracy=accuracies[model] - 0.1 * (width == 8) - 0.1 * (rate == 0.1) + 0.01 * seed,
        )
        for model in accuracies
        for width in (8, 16)
        for rate in (0.01, 0.1)
        for seed in range(3)
    ]
    diverged = [row for row in rows if row["model"] == "nap" and row["width"] == 16 and row["learning_rate"] == 0.01]
    for row in diverged[1:]:  # the best mean, by one run of three
        row |= {"status": "diverged", "final_eval_accuracy": None, "diverged_step": 7}
    raced = min((row for row in rows if row["status"] == "ok"), key=lambda row: row["id"])  # whose curve is asked for
    older, again, failed, alike = [row for row in rows if row["width"] == 8 and row is not raced][:4]
    save_as_version_1(store, older)
    append(store, again | {"status": "failed", "error": "it broke", "final_eval_accuracy": None}, epochs=1)
    append(store, *(row for row in rows if row is not older), epochs=4)
    append(store, again | {"attempt": 2, "final_eval_accuracy": 0.1}, epochs=2)
    append(store, raced | {"finished_at": START - timedelta(days=1), "final_eval_accuracy": 0.2}, epochs=5)
    append(store, failed | {"attempt": 3, "status": "oom", "final_eval_accuracy": None}, epochs=1)
    append(store, trial_row(task="cases", model="nap", width=16, accuracy=1.0))
    append(store, alike | {"final_eval_accuracy": 0.3})  # alike but for its stem, which is larger
    return folder


def save_as_version_1(store: Store, row: dict) -> None:
    """A pair of shards as the first version wrote them, without the columns that came later; its row has no attempt."""
    stem, curves = new_stem(), pa.Table.from_pylist(curve_rows(row, 4), schema=CURVES)
    older = pa.schema([field for field in TRIALS if field.name not in LATER], metadata={VERSION_KEY: b"1"})
    for kind, table in (
        ("curves", curves.replace_schema_metadata({VERSION_KEY: b"1"})),
        ("trials", pa.Table.from_pylist([row | {"attempt": None}], schema=older)),
    ):
        (store.path / kind).mkdir(parents=True)
        pq.write_table(table, store.path / kind / f"{stem}.parquet")


@pytest.fixture(params=ENGINES)
def queried(request, folder, monkeypatch) -> dict[str, list[dict]]:
    """What the page's queries give in one language: rows by the name of the query."""
    monkeypatch.chdir(folder)
    number = [title for title in headings() if title in ENGINES].index(request.param)
    names: dict = {}
    exec(code_blocks(PAGE)[number], names)
    return {name: as_rows(names[name]) for name in ("trials", "means", "best", "curve")}


def as_rows(found) -> list[dict]:
    """A result of DuckDB, Polars or pandas as rows in which null is None."""
    if hasattr(found, "to_dicts"):
        return found.to_dicts()
    if hasattr(found, "to_arrow_table"):
        return found.to_arrow_table().to_pylist()
    return pa.Table.from_pandas(found, preserve_index=False).to_pylist()


@pytest.fixture(scope="module")
def rows(folder) -> list[dict]:
    return [row for row in Store(folder / "store").trials().to_pylist() if row["task"] == "mode"]


def test_each_trial_comes_once_with_the_row_that_the_store_shows(queried, rows):
    seen = ("id", "status", "final_eval_accuracy", "width")
    found = sorted(tuple(row[name] for name in seen) for row in queried["trials"])
    assert found == sorted(tuple(row[name] for name in seen) for row in rows)


def test_means_are_those_of_the_runs_that_did_not_diverge(queried, rows):
    cells: dict = {}
    for row in rows:
        cells.setdefault(tuple(row[name] for name in KEYS), []).append(row)
    expected = []
    for key, members in sorted(cells.items()):
        ok = [row["final_eval_accuracy"] for row in members if row["status"] == "ok"]
        diverged = sum(row["status"] == "diverged" for row in members)
        expected.append(dict(zip(KEYS, key)) | {"mean": sum(ok) / len(ok), "ok": len(ok), "diverged": diverged})
    assert {row["diverged"] for row in expected} == {0, 2}
    assert queried["means"] == [row | {"mean": pytest.approx(row["mean"])} for row in expected]


def test_a_cell_that_mostly_diverges_is_not_the_best(queried):
    best = {row["model"]: (row["width"], row["learning_rate"], row["score"]) for row in queried["best"]}
    highest = max((row for row in queried["means"] if row["model"] == "nap"), key=lambda row: row["mean"])
    assert (highest["width"], highest["learning_rate"]) == (16, 0.01)
    assert best == {"nap": (16, 0.1, pytest.approx(0.81)), "sum": (16, 0.01, pytest.approx(0.61))}


def test_a_curve_is_that_of_the_row_that_counts(queried, rows, folder):
    chosen = min(row["id"] for row in rows if row["status"] == "ok")
    curves = Store(folder / "store").curves([chosen]).to_pylist()
    expected = [{"epoch": row["epoch"], "accuracy": row["correct"] / row["count"]} for row in curves]
    assert queried["curve"] == sorted(expected, key=lambda row: row["epoch"])

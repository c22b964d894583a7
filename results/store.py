"""The store: one row a finished trial, with its curves, in Parquet shards that any number of processes may add to.

    <store>/trials/<stem>.parquet    rows of finished trials (results.schema.TRIALS)
    <store>/curves/<stem>.parquet    their learning curves (results.schema.CURVES)

A flush writes one pair of shards of the same stem, the curves first: a trials shard that can be seen has its curves.
Shards never change once written. There is no lock and no index: the files are the truth.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.compaction import compact
from results.places import BUCKETS, place_of
from results.schema import CURVES, DERIVED, RESULTS, STATUSES, TRIALS, VALUES
from results.shards import RANKING, BadShard, StoreError, Vanished, new_stem, read_shard, to_table, write_shard

__all__ = ["Outcome", "Store", "StoreError"]

T = TypeVar("T")
SCHEMAS = {"trials": TRIALS, "curves": CURVES}

_RETRIES = 50  # a compaction can take away what we have listed; each retry reads only what is new


class Outcome(NamedTuple):
    status: str  # one of results.schema.STATUSES
    attempt: int  # 1-based; 0 where the store does not say


STRINGS = ("id", "split", "case")
"""Columns of curves in which a few strings repeat."""


class Shard(NamedTuple):
    """What was read of one trials shard, and which of its rows count."""

    stem: str
    table: pa.Table
    winners: np.ndarray  # numbers of the rows that no other shard's row supersedes

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """The rows that count."""
        table = self.table.select(columns)
        return table if len(self.winners) == len(table) else table.take(self.winners)


class Store:
    """A store in a folder or a bucket. Making one touches no file: a folder appears with the first `append`.

        store = Store("results.store")    # or "s3://bucket/prefix", "gs://bucket/prefix"
        store.append([{"id": "9f…", "status": "ok", …}], [{"id": "9f…", "epoch": 1, …}])
        store.outcomes()["9f…"].status    # "ok"

    When several rows have one id, a result (ok, diverged) beats a failure, then the higher attempt, the later
    `finished_at` and the larger stem win. Every read method does so, skips bad shards and names them in `problems`.

    Read methods raise StoreError when the store was written by a newer version of sweep or is no folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.place = place_of(path)
        self.path = path if str(path).startswith(BUCKETS) else Path(path)
        self.problems: list[str] = []
        """One line for each bad shard that the last read met. Its trials count as missing."""
        self._ranked: tuple[list[str], list[Shard]] | None = None
        """What the last reading of all shards gave, for the listing that it was of: shards never change."""

    def append(self, trials: Sequence[dict], curves: Sequence[dict] | pa.Table) -> None:
        """Adds finished trials and their curves, all of them or none, as one pair of shards.

        `trials` are dicts of the columns of results.schema.TRIALS, each id once; `curves` dicts or a table of those of
        results.schema.CURVES. What is left out is null. The cost does not depend on what the store holds.

        Raises: ValueError for an unknown column or status, a missing id or one given twice; StoreError when the files
        cannot be written.
        """
        if not trials:
            return
        rows, curve_rows = to_table(trials, TRIALS), to_table(curves, CURVES)
        _check_rows(rows, curve_rows)
        stem = new_stem()
        try:
            self.save("curves", stem, [curve_rows])
            self.save("trials", stem, [rows])
        except OSError as error:
            with suppress(OSError):  # curves without trials are nobody's, and a full disk needs their room
                self.delete("curves", stem)
            raise StoreError(f"cannot write to the store {self.path}: {error.strerror or error}") from error

    def outcomes(self) -> dict[str, Outcome]:
        """The status and the attempt of every trial in the store, by id. Reads no other column."""

        def read(problems: list[str]) -> dict[str, Outcome]:
            outcomes: dict[str, Outcome] = {}
            for shard in self.shards(RANKING, problems):
                columns = (column.to_pylist() for column in shard.rows(["id", "status", "attempt"]))
                outcomes.update(
                    (id_, Outcome(status, attempt or 0)) for id_, status, attempt in zip(*columns, strict=True)
                )
            return outcomes

        return self._read_unmoved(read)

    def trials(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of the store, each trial once, in the order of their shards. All columns, or those asked for.

        Raises: ValueError for an unknown column; StoreError when two rows of one id differ in a value of the trial.
        """
        columns = TRIALS.names if columns is None else list(columns)
        if unknown := sorted(set(columns) - set(TRIALS.names)):
            raise ValueError(f"no such column in the store: {', '.join(unknown)}")
        needed = list(dict.fromkeys([*RANKING, *columns]))

        def read(problems: list[str]) -> pa.Table:
            shards = self.shards(needed, problems)
            self.check_values(shards)
            tables = [shard.rows(columns) for shard in shards]
            return pa.concat_tables(tables or [TRIALS.empty_table().select(columns)])

        return self._read_unmoved(read)

    def curves(self, ids: Iterable[str] | None = None, encoded: bool = False) -> pa.Table:
        """The learning curves of the trials `ids`, or of all: rows of results.schema.CURVES, in no promised order.

        `encoded`: strings as dictionaries, which takes half the memory, and the time of a filter.
        """
        wanted = None if ids is None else pa.array(sorted(set(ids)), pa.string())

        def read(problems: list[str]) -> pa.Table:
            tables = [CURVES.empty_table()] if not encoded else [_encoded(CURVES.empty_table())]
            shards = self.shards(RANKING, problems)
            for stem, found in zip((shard.stem for shard in shards), _wanted(shards, wanted), strict=True):
                if len(found) == 0:
                    continue
                try:
                    curves = self.read("curves", stem, CURVES.names, STRINGS if encoded else ())
                except BadShard as error:
                    problems.append(f"{self._file('curves', stem)}: {error}. The curves of its trials are not shown.")
                else:
                    tables.append(_of_trials(curves, found))
            return pa.concat_tables(tables)

        return self._read_unmoved(read)

    def compact(self, max_rows: int = 20_000) -> int:
        """Merges small shards into shards of at most `max_rows` trials; see results.compaction. How many it merged."""
        try:
            return compact(self, max_rows)
        except BadShard as error:  # damaged since it was looked at: the next compaction leaves it alone
            raise StoreError(f"cannot compact the store {self.path}: {error}") from error
        except OSError as error:
            raise StoreError(f"cannot compact the store {self.path}: {error.strerror or error}") from error

    def check_writable(self) -> None:
        """Raises StoreError, in one line, when `append` could not write here. Leaves no trace."""
        self.place.check_writable()

    # What follows is for results.compaction as well: everything that knows that shards are files in folders.

    def stems(self, kind: str) -> list[str]:
        """Stems of the shards of one kind, sorted. Temporary and stray files are none."""
        return sorted(name.removesuffix(".parquet") for name in self.place.names(kind) if _is_shard(name))

    def read(self, kind: str, stem: str, columns: Sequence[str], encoded: Sequence[str] = ()) -> pa.Table:
        """Columns of one shard. Raises BadShard, Vanished or StoreError."""
        return read_shard(lambda: self.place.source(kind, f"{stem}.parquet"), SCHEMAS[kind], columns, encoded)

    def save(self, kind: str, stem: str, tables: Iterable[pa.Table]) -> None:
        """Writes one shard, atomically."""
        schema = SCHEMAS[kind]
        self.place.save(kind, f"{stem}.parquet", lambda file: write_shard(file, tables, schema))

    def delete(self, kind: str, stem: str) -> None:
        """Deletes one shard, if it is still there."""
        self.place.delete(kind, f"{stem}.parquet")

    def shards(self, columns: Sequence[str], problems: list[str]) -> list[Shard]:
        """Every readable trials shard that has its curves: `columns` of it (RANKING among them), and its winners.

        Raises: Vanished when the store was compacted meanwhile; StoreError.
        """
        listed = self._stable_listing()
        if self._ranked is not None and self._ranked[0] == listed and set(columns) <= set(RANKING):
            return self._ranked[1]
        stems, tables, before = [], [], len(problems)
        for stem in listed:
            try:
                table = self.read("trials", stem, columns)
                _check_readable(table)
            except BadShard as error:
                problems.append(f"{self._file('trials', stem)}: {error}. It is skipped; what only it held runs again.")
                continue
            if (trouble := self._trouble_with_curves(stem)) is None:
                stems.append(stem)
                tables.append(table)
            else:
                problems.append(f"{self._file('curves', stem)}: {trouble}. Its trials count as missing.")
        shards = [Shard(*shard) for shard in zip(stems, tables, winning_rows(tables), strict=True)]
        kept = [Shard(shard.stem, shard.table.select(RANKING), shard.winners) for shard in shards]
        self._ranked = (listed, kept) if len(problems) == before else None  # what is bad may be mended
        return shards

    def check_values(self, shards: Sequence[Shard]) -> None:
        """Raises StoreError when two rows of one id differ in a value of the trial, null aside."""
        if all(len(shard.winners) == len(shard.table) for shard in shards):
            return
        ids = pa.chunked_array([chunk for shard in shards for chunk in shard.table["id"].chunks], pa.string())
        counts = ids.value_counts()
        repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        names = [name for name, _ in VALUES if name not in DERIVED]
        rows = [
            table.filter(pc.is_in(table["id"], repeated))
            for shard in shards
            if pc.any(pc.is_in(shard.table["id"], repeated)).as_py()
            for table in [self.read("trials", shard.stem, ["id", *names])]
        ]
        distinct = pa.concat_tables(rows).group_by("id").aggregate([(name, "count_distinct") for name in names])
        for name in names:
            differs = pc.greater(distinct[f"{name}_count_distinct"], 1)
            if pc.any(differs).as_py():
                id_ = distinct["id"].filter(differs)[0].as_py()
                row = distinct.filter(pc.equal(distinct["id"], id_)).to_pylist()[0]
                unequal = [other for other in names if row[f"{other}_count_distinct"] > 1]
                raise StoreError(
                    f"the store {self.path} holds trial {id_} with two different values of {', '.join(unequal)}: "
                    "its rows were written by versions of sweep that do not agree on ids"
                )

    def _trouble_with_curves(self, stem: str) -> str | None:
        """Why the curves of a trials shard cannot be read, if so. Reads their footer alone."""
        try:
            self.read("curves", stem, [])
        except BadShard as error:
            return str(error)
        except Vanished:
            if not self.place.exists("trials", f"{stem}.parquet"):  # compaction deletes the trials first
                raise
            return "missing"
        return None

    def _stable_listing(self) -> list[str]:
        """Stems of the trials shards, from two listings in a row that agree.

        One listing alone, made during a compaction, may miss both the merged shard and the ones that it replaced.
        """
        stems = self.stems("trials")
        for _ in range(_RETRIES):
            before, stems = stems, self.stems("trials")
            if stems == before:
                break
        return stems

    def _read_unmoved(self, read: Callable[[list[str]], T]) -> T:
        """`read(problems)`, again from the start whenever a shard vanished under it."""
        for _ in range(_RETRIES):
            problems: list[str] = []
            try:
                answer = read(problems)
            except Vanished:
                continue
            self.problems = problems
            return answer
        raise StoreError(f"the store {self.path} is compacted faster than it can be read")

    @staticmethod
    def _file(kind: str, stem: str) -> str:
        return f"{kind}/{stem}.parquet"


def _wanted(shards: Sequence[Shard], ids: pa.Array | None) -> list[pa.Array]:
    """The ids of each shard's rows that count, of those that are wanted (all: None); looked up all at once."""
    found = [pc.take(shard.table["id"], shard.winners).combine_chunks() for shard in shards]
    if ids is None:
        return found
    mask = pc.is_in(pa.chunked_array(found, pa.string()).combine_chunks(), value_set=ids)
    starts = np.cumsum([0, *map(len, found)])
    return [each.filter(mask[low:high]) for each, low, high in zip(found, starts[:-1], starts[1:], strict=True)]


def _encoded(curves: pa.Table) -> pa.Table:
    for name in STRINGS:
        curves = curves.set_column(curves.schema.get_field_index(name), name, curves[name].dictionary_encode())
    return curves


def _of_trials(curves: pa.Table, ids: pa.Array) -> pa.Table:
    """The rows of some trials; the table itself where there are no others."""
    column, kept = curves["id"], []
    for chunk in column.chunks:
        plain = not pa.types.is_dictionary(chunk.type)
        found = pc.is_in(chunk if plain else chunk.dictionary, value_set=ids)
        kept.append(found if plain else found.take(chunk.indices))
    mask = pa.chunked_array(kept, pa.bool_())
    return curves if pc.all(mask, min_count=0).as_py() else curves.filter(mask)


def winning_rows(tables: Sequence[pa.Table]) -> list[np.ndarray]:
    """The numbers of each table's winning rows. Tables are shards in the order of their stems, with RANKING."""
    if not tables:
        return []
    ids = pa.chunked_array([chunk for table in tables for chunk in table["id"].chunks], pa.string())
    encoded = ids.combine_chunks().dictionary_encode()
    if len(encoded.dictionary) == len(ids):  # as in a store that was compacted: there is nothing to rank
        return [np.arange(len(table)) for table in tables]
    rows = pa.concat_tables([table.select(RANKING) for table in tables]).combine_chunks()
    id_codes = encoded.indices.to_numpy()
    is_result = pc.is_in(rows["status"], pa.array(RESULTS)).to_numpy()
    attempt = pc.fill_null(rows["attempt"], 0).to_numpy()
    finished_at = pc.fill_null(rows["finished_at"].cast(pa.int64()), np.iinfo(np.int64).min).to_numpy()
    position = np.arange(len(rows))  # grows with the stem

    order = np.lexsort((position, finished_at, attempt, is_result, id_codes))
    last_of_id = np.append(id_codes[order][1:] != id_codes[order][:-1], True)[: len(order)]
    winners = np.sort(order[last_of_id])
    starts = np.cumsum([0, *(len(table) for table in tables)])
    pieces = np.split(winners, np.searchsorted(winners, starts[1:-1]))
    return [piece - start for piece, start in zip(pieces, starts[:-1], strict=True)]


def _is_shard(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def _check_readable(table: pa.Table) -> None:
    """Raises BadShard where a row has no id, or a status that there is not."""
    known = pc.all(pc.is_in(table["status"], pa.array(STATUSES)), min_count=0).as_py()
    if table["id"].null_count or not known:
        raise BadShard("a row without an id, or with an unknown status")


def _check_rows(trials: pa.Table, curves: pa.Table) -> None:
    ids = trials["id"].to_pylist()
    if None in ids:
        raise ValueError("a trial's row has no id")
    if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1} if len(set(ids)) < len(ids) else ()):
        raise ValueError(f"trials given twice in one append: {', '.join(twice)}")
    if unknown := sorted({str(status) for status in trials["status"].to_pylist()} - set(STATUSES)):
        raise ValueError(f"unknown status {', '.join(unknown)}: one of {', '.join(STATUSES)}")
    if strangers := sorted(set(map(str, curves["id"].unique().to_pylist())) - set(ids)):
        raise ValueError(f"curves of trials that are not in this append: {', '.join(strangers)}")

"""Learning curves as arrays: trials by epochs, for one kind of sequence at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Rows = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Series:
    """One number a trial and epoch.

    Attributes:
        ids: of N trials.
        values: [N, E], float32; NaN where a trial has none. Column 0 is epoch 1.
    """

    ids: tuple[str, ...]
    values: np.ndarray
    index: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {id_: number for number, id_ in enumerate(self.ids)})

    @property
    def epochs(self) -> int:
        return self.values.shape[1]

    def of(self, ids: Sequence[str]) -> np.ndarray:
        """[len(ids), E]; NaN for trials without curves."""
        found = np.full((len(ids), self.epochs), np.nan, np.float32)
        for number, id_ in enumerate(ids):
            if id_ in self.index:
                found[number] = self.values[self.index[id_]]
        return found


class Curves:
    """The learning curves of a study's trials.

    Args:
        table: rows of results.schema.CURVES, strings encoded or not; those of other trials and of earlier
            attempts are passed over.
        rows: the trials by id.
    """

    def __init__(self, table: pa.Table, rows: Rows):
        self.ids = tuple(rows)
        attempts = np.array([row.get("attempt") or 1 for row in rows.values()], np.int32)
        self.lengths = {
            at: np.array([row.get(at) or -1 for row in rows.values()], np.int32) for at in ("length", "eval_length")
        }
        trial = _codes(table["id"], list(self.ids), np.int32)
        ours = trial >= 0
        ours[ours] = table["attempt"].to_numpy()[ours] == attempts[trial[ours]]
        self.trial = trial[ours]
        self.splits, self.cases = (sorted(_distinct(table[name])) for name in ("split", "case"))
        self.split = _codes(table["split"], self.splits, np.int8)[ours]
        self.case = _codes(table["case"], self.cases, np.int8)[ours]
        self.epoch, self.length, self.correct, self.count = (
            table[name].to_numpy()[ours].astype(np.int32) for name in ("epoch", "length", "correct", "count")
        )
        self.loss = table["loss"].to_numpy()[ours].astype(np.float32)

    def series(self, split: str, at: str | int, case: str = "all", kind: str = "accuracy") -> Series:
        """One kind of sequence: `at` is a length, or the column of the rows that says it; `kind` accuracy or loss."""
        wanted = self._is(self.split, self.splits, split) & self._is(self.case, self.cases, case)
        lengths = self.lengths[at][self.trial] if isinstance(at, str) else at
        wanted &= (self.length == lengths) & (self.count > 0)
        epochs = int(self.epoch[wanted].max(initial=0))
        values = np.full((len(self.ids), epochs), np.nan, np.float32)
        numbers = self.correct[wanted] / self.count[wanted] if kind == "accuracy" else self.loss[wanted]
        values[self.trial[wanted], self.epoch[wanted] - 1] = numbers
        return Series(self.ids, values)

    def eval_lengths(self) -> list[int]:
        """Lengths of sequences that some trial is evaluated on as a whole, ascending."""
        wanted = self._is(self.split, self.splits, "eval") & self._is(self.case, self.cases, "all")
        return sorted(int(length) for length in np.unique(self.length[wanted]))

    @staticmethod
    def _is(codes: np.ndarray, names: list[str], name: str) -> np.ndarray:
        return codes == names.index(name) if name in names else np.zeros(len(codes), bool)


def _distinct(column: pa.ChunkedArray) -> set[str]:
    return set(column.unique().to_pylist())


def _codes(column: pa.ChunkedArray, names: list[str], kind: type) -> np.ndarray:
    """For each string of a column its place in `names`; −1 where it is not there."""
    parts: list[np.ndarray] = [np.zeros(0, kind)]
    if pa.types.is_dictionary(column.type) and column.num_chunks:  # one look at the names, however many shards
        column = column.unify_dictionaries()
        places = pc.fill_null(pc.index_in(column.chunk(0).dictionary, value_set=pa.array(names, pa.string())), -1)
        known = places.to_numpy(zero_copy_only=False).astype(kind)
        return np.concatenate([known[chunk.indices.to_numpy(zero_copy_only=False)] for chunk in column.chunks])
    for chunk in column.chunks:
        encoded = chunk.dictionary_encode()
        places = pc.fill_null(pc.index_in(encoded.dictionary, value_set=pa.array(names, pa.string())), -1)
        parts.append(places.to_numpy(zero_copy_only=False).astype(kind)[encoded.indices.to_numpy(zero_copy_only=False)])
    return np.concatenate(parts)


def last_of(series: Series) -> dict[str, float]:
    """The last epoch's value of each trial that has one."""
    values = last_values(series.values)
    return {id_: float(value) for id_, value in zip(series.ids, values, strict=True) if np.isfinite(value)}


def last_values(values: np.ndarray) -> np.ndarray:
    """The last finite number of each row of [N, E]; NaN where it has none. Trials may have had fewer epochs."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    there = np.isfinite(values)
    last = values.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
    return np.where(there.any(axis=1), values[np.arange(len(values)), last], np.nan)

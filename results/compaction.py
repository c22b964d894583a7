"""Compaction: few large shards in place of many small ones, with no lock and safe to kill.

The merged curves are written first, then the merged trials, then the old trials are deleted, then the old curves. At
every moment each trial's winning row can be seen together with its curves, and at worst some rows twice.

Why two compactions at once lose nothing: a row is only ever deleted while one that beats it exists, be it another
attempt or its own copy in a merged shard, whose stem is larger than those of all the shards that it replaces.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from results.schema import CURVES, TRIALS
from results.shards import RANKING, BadShard, Vanished, is_stem, new_stem

if TYPE_CHECKING:
    from results.store import Shard, Store

SMALL = 1_000  # shards of fewer trials are always worth merging
ROW_GROUP = 250_000  # rows of curves held in memory at once, some tens of megabytes
ABANDONED_SECONDS = 3600.0  # no flush takes that long between its two files


def compact(store: "Store", max_rows: int) -> int:
    """Merges small shards of `store` into shards of at most `max_rows` trials, and keeps only the rows that count.

    Failed rows stay where nothing better is known. Bad shards are left alone. Curves without trials and temporary
    files, left by a kill, go once they are an hour old. Returns how many shards were merged.

    Raises: StoreError when the store is newer than this version, or holds one id with different values.
    """
    merged = 0
    try:
        problems: list[str] = []
        shards = store.shards(RANKING, problems)
        store.problems = problems
        store.check_values(shards)
        for group in groups_to_merge(shards, max_rows):
            merged += _merge(store, group)
    except Vanished:
        pass  # another process compacts this store: leave it to that one
    _remove_abandoned(store)
    return merged


def groups_to_merge(shards: Sequence["Shard"], max_rows: int) -> list[list["Shard"]]:
    """The shards to merge, group by group.

    A shard joins only when it is small or no larger than the ones before it together. So a trial is rewritten a
    number of times that grows with the logarithm of its shard's size, not with the number of compactions.
    """
    groups: list[list[Shard]] = []
    group: list[Shard] = []
    rows = 0
    for shard in sorted((shard for shard in shards if is_stem(shard.stem)), key=lambda shard: len(shard.table)):
        size = len(shard.table)
        if size >= max_rows // 2 or size > max(SMALL, rows):
            break
        if rows + size > max_rows:
            groups.append(group)
            group, rows = [], 0
        group.append(shard)
        rows += size
    return [group for group in [*groups, group] if len(group) > 1]


def _merge(store: "Store", group: Sequence["Shard"]) -> int:
    """Merges one group, without those of its shards that turn out to be damaged. How many shards it merged."""
    rows: list[pa.Table] = []
    sources: list[Shard] = []
    for shard in group:
        try:
            rows.append(store.read("trials", shard.stem, TRIALS.names).take(shard.winners))
            store.read("curves", shard.stem, CURVES.names)  # a damaged page shows only when it is read
        except BadShard as error:
            store.problems.append(f"trials or curves of {shard.stem}: {error}. Left as it is.")
            rows = rows[: len(sources)]
        else:
            sources.append(shard)
    if len(sources) < 2:
        return 0

    stem = new_stem(after=(shard.stem for shard in sources))
    trials = pa.concat_tables(rows).combine_chunks()
    if len(trials):
        store.save("curves", stem, _row_groups(_winning_curves(store, shard) for shard in sources))
        store.save("trials", stem, [trials])
    for kind in ("trials", "curves"):
        for shard in sources:
            store.delete(kind, shard.stem)
    return len(sources)


def _winning_curves(store: "Store", shard: "Shard") -> pa.Table:
    curves = store.read("curves", shard.stem, CURVES.names)
    ids = pc.take(shard.table["id"], shard.winners).combine_chunks()
    return curves.filter(pc.is_in(curves["id"], ids))


def _row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of about ROW_GROUP rows, so that no merge holds all its curves in memory."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(len(table) for table in waiting) >= ROW_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _remove_abandoned(store: "Store") -> None:
    """Removes what a kill left: curves whose trials were never written or are already deleted, temporary files."""
    oldest = time.time() - ABANDONED_SECONDS
    orphans = set(store.stems("curves"))
    orphans -= set(store.stems("trials"))
    for kind in ("trials", "curves"):
        for name in store.place.names(kind):
            orphan = kind == "curves" and name.removesuffix(".parquet") in orphans
            if (orphan or store.place.is_leftover(name)) and store.place.modified(kind, name) < oldest:
                store.place.delete(kind, name)

"""One shard: a Parquet file of trials or of curves, written whole and read with suspicion."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from results import StoreError
from results.schema import OLDER, SCHEMA_VERSION, VERSION_KEY

RANKING = ["id", "status", "attempt", "finished_at"]
"""The columns that say which of two rows of one trial counts."""

_STEM = re.compile(r"(\d{8}T\d{12}Z)-[0-9a-f]{12}")
_STEM_TIME = "%Y%m%dT%H%M%S%fZ"


class BadShard(Exception):
    """A shard that cannot be read; the message says why."""


class Vanished(Exception):
    """A shard that was listed and is gone: somebody has compacted the store meanwhile."""


def new_stem(after: Iterable[str] = ()) -> str:
    """A name for a new pair of shards: the time (UTC), then a random part. Larger than every stem in `after`."""
    time = datetime.now(UTC)
    latest = max(after, default="")
    if match := _STEM.fullmatch(latest):  # the clock of the host that wrote it may be ahead of ours
        time = max(time, datetime.strptime(match[1], _STEM_TIME).replace(tzinfo=UTC) + timedelta(microseconds=1))
    return f"{time.strftime(_STEM_TIME)}-{uuid4().hex[:12]}"


def is_stem(name: str) -> bool:
    """Whether `new_stem` could have made this name."""
    return _STEM.fullmatch(name) is not None


def to_table(rows: Sequence[dict] | pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows as a table of exactly `schema`: what a row leaves out is null; a column that a table leaves out, as `OLDER`
    says.

    Raises: ValueError for a column that the schema lacks, pyarrow.ArrowInvalid or ArrowTypeError for a value of
    another type than its column's.
    """
    names = rows.column_names if isinstance(rows, pa.Table) else {name for row in rows for name in row}
    if unknown := sorted(set(names) - set(schema.names)):
        raise ValueError(f"no such column in the store: {', '.join(unknown)}")
    if isinstance(rows, pa.Table):
        return _with_columns(rows.cast(pa.schema([schema.field(name) for name in names])), schema)
    return pa.Table.from_pylist(list(rows), schema=schema)


def write_shard(file: BinaryIO, tables: Iterable[pa.Table], schema: pa.Schema) -> None:
    """Writes `tables`, one after the other and each as a row group, as one shard."""
    with pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer:
        for table in tables:
            writer.write_table(table)


def read_shard(
    source: Callable[[], Any], schema: pa.Schema, columns: Sequence[str], encoded: Sequence[str] = ()
) -> pa.Table:
    """The shard's `columns`, in that order; where the shard is older than the column, as `OLDER` says, else null.

    With no columns, only the footer is read: enough to tell a whole file from a truncated one.

    Args:
        source: opens it, or gives its path. Raises FileNotFoundError where it is gone.
        encoded: string columns to be dictionary-encoded: a fraction of the memory where strings repeat.

    Raises: BadShard, Vanished, and StoreError for a shard of a newer schema.
    """
    path: Any = None
    try:
        path = source()
        options: dict[str, Any] = {"page_checksum_verification": True, "pre_buffer": False}
        with pq.ParquetFile(path, read_dictionary=list(encoded), **options) as file:
            found = _decoded(file.schema_arrow) if encoded else file.schema_arrow
            _check_schema(found, schema)
            names = set(found.names)
            present = [name for name in columns if name in names]
            # Threads cost more than they bring in a shard of some hundred rows, of which there are many.
            large = file.metadata.num_rows > 100_000
            table = file.read(columns=present, use_threads=large) if present else schema.empty_table()
    except FileNotFoundError as error:
        if isinstance(path, Path) and path.is_symlink():
            raise BadShard("a link to nothing") from error
        raise Vanished(str(error)) from error
    except (pa.ArrowException, OSError) as error:
        raise BadShard((str(error) or type(error).__name__).splitlines()[0].rstrip(".")) from error
    return _with_columns(table, pa.schema([schema.field(name) for name in columns], schema.metadata))


def _decoded(schema: pa.Schema) -> pa.Schema:
    """A schema with plain types for dictionary-encoded ones."""
    for number, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            schema = schema.set(number, field.with_type(field.type.value_type))
    return schema


def _check_schema(found: pa.Schema, expected: pa.Schema) -> None:
    """Raises StoreError for a newer schema and BadShard for one that is not this store's."""
    version = (found.metadata or {}).get(VERSION_KEY, b"").decode(errors="replace")
    if not version.isdecimal():
        raise BadShard("not a shard of a store: it carries no schema version")
    if int(version) > SCHEMA_VERSION:
        raise StoreError(
            f"the store was written by a newer version of sweep (schema {version}; this one reads up to "
            f"{SCHEMA_VERSION}): upgrade sweep, or use another --store"
        )
    if found.equals(expected):
        return
    if "id" not in found.names:
        raise BadShard("not a shard of a store: it has no column id")
    for field in expected:
        if field.name in found.names and found.field(field.name).type != field.type:
            raise BadShard(f"column {field.name} is {found.field(field.name).type}, not {field.type}")


def _with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """`table` with the columns of `schema` and no other; what it does not have is as `OLDER` says, else null."""
    present = set(table.column_names)
    for field in schema:
        if field.name not in present:
            if (value := OLDER.get(field.name)) is None:
                column = pa.nulls(len(table), field.type)
            else:
                column = pa.repeat(pa.scalar(value, field.type), len(table))
            table = table.append_column(field, column)
    return table.select(schema.names).replace_schema_metadata(schema.metadata)

"""What became of a study's trials: counts, and failures by kind."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from results.cells import Table, Value
from results.schema import STATUSES
from results.words import format_value


def counts(points: Sequence[Mapping[str, Value]], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """How many different trials are planned, have each status, and are missing."""
    ids = {point["id"] for point in points}
    found = Counter(rows[id_]["status"] if id_ in rows else "missing" for id_ in ids)
    return {"planned": len(ids), **{status: found[status] for status in (*STATUSES, "missing")}}


def failures(points: Sequence[Mapping[str, Value]], rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """What went wrong, by kind, the most frequent first.

    A kind is a status and the last line of the error, numbers aside. Columns: status, kind, count, and of the first
    such trial its id (example_id), its axes (example) and its whole error (error, empty where none was kept).
    """
    kinds: dict[tuple[str, str], Table] = {}
    for point in points:
        row = rows.get(point["id"], {})
        if row.get("status") in ("failed", "oom"):
            error = (row.get("error") or "").strip()
            kind = error.splitlines()[-1].strip() if error else "no message"
            example = ", ".join(f"{name}={format_value(value)}" for name, value in point.items() if name != "id")
            found = {"status": row["status"], "kind": kind, "id": point["id"], "example": example, "error": error}
            kinds.setdefault((row["status"], re.sub(r"\d+", "#", kind)), []).append(found)
    return [
        {
            "status": first["status"],
            "kind": first["kind"],
            "count": len(found),
            "example_id": first["id"],
            "example": first["example"],
            "error": first["error"],
        }
        for found in sorted(kinds.values(), key=len, reverse=True)
        for first in found[:1]
    ]

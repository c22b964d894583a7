"""Tables as CSV files."""

import csv
import io
from pathlib import Path

from results.cells import Table
from results.files import save_text


def to_csv(table: Table, path: Path) -> None:
    """Saves a table as CSV (RFC 4180), atomically. None is an empty field, a sequence is joined by spaces."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(dict.fromkeys(name for row in table for name in row))
    writer.writerow(names)
    for row in table:
        values = (row.get(name) for name in names)
        writer.writerow(" ".join(map(str, value)) if isinstance(value, tuple) else value for value in values)
    save_text(path, text.getvalue())

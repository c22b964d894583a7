"""A process that appends to a store and compacts it until it is killed, and says what it has appended.

Run as: python hammer.py STORE NAME [FLUSHES]
"""

import sys
from itertools import count

from results.store import Store

TRIALS_A_FLUSH = 5
EPOCHS = 4


def main(path: str, name: str, flushes: int | None) -> None:
    store = Store(path)
    for flush in range(flushes) if flushes else count():
        ids = [f"{name}-{flush}-{trial}" for trial in range(TRIALS_A_FLUSH)]
        store.append(
            [{"id": id_, "status": "ok", "seed": flush, "attempt": 1} for id_ in ids],
            [{"id": id_, "epoch": epoch, "attempt": 1} for id_ in ids for epoch in range(1, EPOCHS + 1)],
        )
        print(*ids, sep="\n", flush=True)
        if flush % 4 == 3:
            store.compact(max_rows=200)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)

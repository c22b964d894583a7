"""How fast sequences are drawn: million tokens a second of one core, for every task.

    python tests/benchmarks/generators.py [--length N]

Ends with 1 where a task is slower than it must be not to keep training waiting: 20 million tokens a second, 2 million
for those that draw trees or stacks (listops, dyck).
"""

import argparse
import sys
import time

from tasks import TASKS, stream

TOKENS = 2_000_000
ASKED, ASKED_OF_TREES = 20.0, 2.0
TREES = ("listops", "dyck")


def speed(name: str, length: int) -> float:
    """Million tokens a second: the best of five rounds of processor time."""
    task, count, best = TASKS[name], TOKENS // length, 0.0
    for part in range(5):
        started = time.process_time()
        task.sequences(stream(0, "benchmark", part), count, length, task.vocabulary)
        best = max(best, count * length / (time.process_time() - started) / 1e6)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=128)
    length, slow = parser.parse_args().length, []
    for name in TASKS:
        found, asked = speed(name, length), ASKED_OF_TREES if name in TREES else ASKED
        slow += [name] if found < asked else []
        print(f"{name:13} {found:8.1f} million tokens a second ({asked:g} asked)")
    sys.exit(f"too slow: {', '.join(slow)}" if slow else 0)


if __name__ == "__main__":
    main()

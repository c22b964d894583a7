"""`paper/mode-width` at width 16, shortened, by one worker and by two: `make bench-workers`, some minutes.

Two workers on two cores should need at most 0.6 of the time of one. Times are of the whole command, Ray's start
included.
"""

import subprocess
import sys
import tempfile
import time

MOST = 0.6
SHORT = ["--set", "width=16", "--set", "epochs=4", "--set", "seed={count=2}"]


def seconds(workers: int) -> float:
    """What the command takes."""
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "sweep", "run", "paper/mode-width", "--store", store]
        began = time.perf_counter()
        subprocess.run([*command, *SHORT, "--executor", "ray", "--workers", str(workers)], check=True)
        return time.perf_counter() - began


def main() -> None:
    one, two = seconds(1), seconds(2)
    print(f"one worker {one:.0f} s, two {two:.0f} s: {two / one:.2f} of the time (at most {MOST})")
    sys.exit(two > MOST * one)


if __name__ == "__main__":
    main()

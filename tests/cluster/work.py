"""What the tests' workers run. A payload says what is to become of it."""

import os
import sys
import time
from pathlib import Path

from cluster.events import BrokenProcess


def work(payload: dict):
    """Yields who runs it, then does what it says."""
    yield os.getpid()
    do = payload.get("do")
    if do == "raise on":
        import ray

        if ray.get_runtime_context().get_node_id() == payload["node"]:
            raise RuntimeError("this node is bad")
        time.sleep(0.2)
    if do == "exit":
        os._exit(3)
    if do == "exit once":
        mark = Path(payload["mark"])
        if not mark.exists():
            mark.write_text("")
            os._exit(3)
    if do == "raise":
        print("said before")
        raise ValueError("as told")
    if do == "break":
        raise BrokenProcess("the accelerator is gone")
    if do == "print":
        for _ in range(1000):
            print("x" * 10_000)
            sys.stderr.write("y" * 1000)
    if do == "allocate":
        yield len(bytearray(payload["bytes"]))
    if do == "sleep":
        time.sleep(payload["seconds"])
    yield "done"

"""For all tests: a home of their own, one thread (packs are small, and threads only wait for each other), no
cluster."""

import os
import tempfile

HOME = tempfile.mkdtemp(prefix="sweep-tests-")
os.environ.update(HOME=HOME, XDG_CACHE_HOME=f"{HOME}/.cache", RAY_AUTH_MODE="disabled", OMP_NUM_THREADS="1")
os.environ.pop("SWEEP_STORE", None)

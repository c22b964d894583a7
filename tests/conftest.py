"""For all tests: a home of their own, one thread (packs are small, and threads only wait for each other), no
cluster."""

import os
import tempfile

import pytest

HOME = tempfile.mkdtemp(prefix="sweep-tests-")
os.environ.update(HOME=HOME, XDG_CACHE_HOME=f"{HOME}/.cache", RAY_AUTH_MODE="disabled", OMP_NUM_THREADS="1")
os.environ.pop("SWEEP_STORE", None)

CLUSTERS = ("test_ray_pool.py", "test_submit.py", "test_ray_run.py", "test_plugins.py")
"""Files whose tests start clusters: two at a time are more than two cores can carry."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes (`--dist loadgroup`), those of a file stay together, and those of all
    `CLUSTERS`."""
    for item in items:
        group = "clusters" if item.path.name in CLUSTERS else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))

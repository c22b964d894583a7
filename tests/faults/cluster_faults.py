"""Real clusters of several nodes on this machine that lose what clusters lose. `make faults`; some minutes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.connect import Slots
from cluster.events import Failed, Finished, Notice
from cluster.ray_pool import RayExecutor
from results.store import Store
from tests.cluster.work import work

ROOT = Path(__file__).parents[2]
SIXTY = ["--set", "seed={count=5}", "--set", "width=8,16", "--set",
         "learning_rate=0.01,0.003,0.001", "--set", "epochs=8", "--pack-width", "2"]  # fmt: skip


@pytest.fixture
def environment(monkeypatch) -> dict[str, str]:
    """What nodes, workers and drivers are started with."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    return dict(os.environ)


@pytest.fixture
def cluster(environment):
    """Three nodes of one processor each."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


def start(store: Path, address: str, *more: str, model: str = "nap,sum") -> subprocess.Popen:
    """A driver: `sweep run` of sixty short trials."""
    command = [sys.executable, "-m", "sweep", "run", "quickstart", "--store", str(store), "--address", address,
               "--set", f"model={model}"]  # fmt: skip
    with open(store.parent / "driver.log", "a") as log:
        return subprocess.Popen([*command, *SIXTY, *more], stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)


def rows(store: Path) -> list[dict]:
    return Store(store).trials().to_pylist() if (store / "trials").exists() else []


def until(condition, seconds: float = 120) -> None:
    """Waits for something to become so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


def workers(cluster: Cluster) -> list[psutil.Process]:
    """The processes of the pool, and no others: children of this cluster's raylets."""
    raylets = {info.process.pid for node in cluster.list_all_nodes() for info in node.all_processes.get("raylet", [])}
    found = []
    for process in psutil.process_iter(["ppid", "cmdline"]):
        line = process.info["cmdline"] or []
        if process.info["ppid"] in raylets and line and line[0].startswith("ray::Worker"):
            found.append(process)
    return found


def check_complete(store: Path, count: int, epochs: int) -> None:
    """Every trial once, and every curve whole."""
    found = rows(store)
    assert len(found) == len({row["id"] for row in found}) == count
    assert {row["status"] for row in found} == {"ok"}
    curves = Store(store).curves().to_pylist()
    attempts = {row["id"]: row["attempt"] for row in found}
    seen = Counter((c["id"], c["epoch"], c["split"], c["length"], c["case"]) for c in curves
                   if c["attempt"] == attempts[c["id"]])  # fmt: skip
    assert set(seen.values()) == {1}
    assert len({(id, epoch) for id, epoch, *_ in seen}) == count * epochs


def test_a_node_a_worker_and_the_driver_are_lost_and_nothing_else(cluster, tmp_path):
    store = tmp_path / "store"
    driver = start(store, cluster.address)
    until(lambda: len(rows(store)) >= 6)
    workers(cluster)[0].send_signal(signal.SIGKILL)
    until(lambda: len(rows(store)) >= 14)
    cluster.remove_node(next(node for node in cluster.list_all_nodes() if not node.is_head()), allow_graceful=False)
    until(lambda: len(rows(store)) >= 24)
    driver.kill()
    driver.wait()
    kept = len(rows(store))
    assert 24 <= kept < 60
    again = start(store, cluster.address)
    assert again.wait(timeout=300) == 0
    check_complete(store, 60, 8)
    last = start(store, cluster.address)
    assert last.wait(timeout=60) == 0 and "nothing to run" in (tmp_path / "driver.log").read_text()


def test_nodes_that_join_are_used(environment, tmp_path):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        driver = start(tmp_path / "store", cluster.address, "--wait-for-resources")
        time.sleep(12)
        assert driver.poll() is None and not rows(tmp_path / "store")
        cluster.add_node(num_cpus=2)
        assert driver.wait(timeout=300) == 0
        check_complete(tmp_path / "store", 60, 8)
    finally:
        cluster.shutdown()


def test_without_resources_it_is_said_soon_and_with_exit_3(environment, tmp_path):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        began = time.monotonic()
        driver = start(tmp_path / "store", cluster.address)
        assert driver.wait(timeout=60) == 3
        assert time.monotonic() - began < 30
        assert "no node has room for a worker, which takes 1 CPU; there is" in (tmp_path / "driver.log").read_text()
    finally:
        cluster.shutdown()


def test_two_runs_of_overlapping_studies_at_once_end_with_each_trial_once(cluster, tmp_path):
    store = tmp_path / "store"
    one = start(store, cluster.address)
    other = start(store, cluster.address, model="nap,max")
    assert one.wait(timeout=300) == 0 and other.wait(timeout=300) == 0
    check_complete(store, 90, 8)
    counted = subprocess.run([sys.executable, "-m", "sweep", "status", "quickstart", "--store", str(store), "--json"],
                             capture_output=True, text=True, cwd=ROOT, check=True)  # fmt: skip
    assert json.loads(counted.stdout)["problems"] == []


def test_a_node_on_which_everything_fails_is_avoided_and_named(cluster):
    executor = RayExecutor(work, Slots(), address=cluster.address)
    try:
        bad = next(node for node in cluster.list_all_nodes() if not node.is_head()).node_id
        tickets = [executor.submit({"do": "raise on", "node": bad}) for _ in range(40)]
        events = list(executor.events())
    finally:
        executor.close()
    failed = [event for event in events if isinstance(event, Failed)]
    finished = [event for event in events if isinstance(event, Finished)]
    assert len(failed) + len(finished) == len(tickets) and 3 <= len(failed) <= 6
    assert any(isinstance(event, Notice) and "is avoided from now on" in event.text for event in events)


def test_a_worker_that_waits_on_a_node_that_others_hold_is_tried_on_another(environment, monkeypatch):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    monkeypatch.setattr("cluster.ray_pool.START_SECONDS", 5.0)
    executor = None
    try:
        free = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        executor = RayExecutor(work, Slots(cpus=1, most=1), cluster.address)
        head = next(node for node in cluster.list_all_nodes() if node.is_head())
        holder = Holder.options(scheduling_strategy=NodeAffinitySchedulingStrategy(head.node_id, soft=False)).remote()
        ray.get(holder.ready.remote())
        ticket = executor.submit({})
        used, seen = set(), []
        for event in executor.events():
            seen.append(event)
            used |= {member.node for member in executor.members if member.started}
        assert seen[-1] == Finished(ticket) and used == {free.node_id}
    finally:
        if executor is not None:
            executor.close()
        cluster.shutdown()


def test_a_cluster_that_others_hold_is_waited_for(environment, monkeypatch):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    monkeypatch.setattr("cluster.ray_pool.START_SECONDS", 3.0)
    executor = None
    try:
        executor = RayExecutor(work, Slots(cpus=1, most=1), cluster.address)
        holder = Holder.remote()
        ray.get(holder.ready.remote())
        ticket, seen = executor.submit({}), []
        for event in executor.events():
            seen.append(event)
            if isinstance(event, Notice) and "waiting for room" in event.text:
                ray.kill(holder)
        assert seen[-1] == Finished(ticket)
        assert sum(isinstance(event, Notice) and "waiting for room" in event.text for event in seen) == 1
    finally:
        if executor is not None:
            executor.close()
        cluster.shutdown()


@ray.remote(num_cpus=1)
class Holder:
    """Another's work on a node."""

    def ready(self) -> None:
        """Returns once it holds its processor."""

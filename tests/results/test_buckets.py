"""A store in a bucket, on a real S3 server on loopback: what a folder promises, a bucket keeps."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from results import StoreError
from results.store import Store

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    yield "{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def address(server, monkeypatch, request) -> str:
    """An empty bucket's address, with credentials the usual way."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bucket = f"bucket{abs(hash(request.node.name))}"
    boto3.client("s3", endpoint_url=f"http://{server}").create_bucket(Bucket=bucket)
    return f"s3://{bucket}/some/prefix?endpoint_override={server}&scheme=http"


def row(id: str, **values) -> dict:
    return {"id": id, "status": "ok", "attempt": 1, **values}


def curve(id: str) -> dict:
    return {"id": id, "attempt": 1, "epoch": 1, "split": "train", "length": 8, "case": "all"}


def test_rows_come_back_with_their_curves(address):
    store = Store(address)
    assert store.outcomes() == {}
    store.check_writable()
    store.append([row("a"), row("b", status="failed")], [curve("a")])
    again = Store(address)
    assert {id: outcome.status for id, outcome in again.outcomes().items()} == {"a": "ok", "b": "failed"}
    assert again.curves(["a"])["epoch"].to_pylist() == [1] and again.problems == []
    assert sorted(store.place.names("trials")) == sorted(store.place.names("curves"))


def test_compaction_while_others_write_loses_nothing(address):
    store = Store(address)

    def write(start: int) -> None:
        for number in range(start, start + 8):
            Store(address).append([row(f"{number}")], [curve(f"{number}")])

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 100)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        Store(address).compact()
    store.compact()
    assert set(store.outcomes()) == {str(n) for start in (0, 100) for n in range(start, start + 8)}
    assert len(store.curves()) == 16 and len(store.stems("trials")) == 1


def test_a_compaction_that_is_killed_anywhere_leaves_every_row(address, monkeypatch):
    store = Store(address)
    for number in range(4):
        store.append([row(f"{number}")], [curve(f"{number}")])

    class Killed(BaseException):
        pass

    done = 0
    while True:
        actions = 0

        def counted(name, action, limit=done):
            def call(*arguments):
                nonlocal actions
                actions += 1
                if actions > limit:
                    raise Killed
                return action(*arguments)

            return call

        victim = Store(address)
        for name in ("save", "delete"):
            monkeypatch.setattr(victim.place, name, counted(name, getattr(victim.place, name)))
        try:
            victim.compact()
        except Killed:
            done += 1
        else:
            break
        assert set(Store(address).outcomes()) == {"0", "1", "2", "3"}
        assert len(Store(address).curves()) >= 4
    assert done >= 4
    assert len(Store(address).stems("trials")) == 1 and len(Store(address).curves()) == 4


def test_what_is_wrong_is_one_line(address, server):
    missing = Store(address.replace("s3://bucket", "s3://nobodys"))
    with pytest.raises(StoreError, match="cannot write to the store s3://nobodys") as error:
        missing.check_writable()
    assert "\n" not in str(error.value)
    with pytest.raises(StoreError, match="cannot use the store s3://"):
        Store("s3://bucket/x?no_such_option=1").outcomes()


def test_a_study_runs_into_a_bucket_and_running_twice_is_running_once(address):
    command = [sys.executable, "-m", "sweep", "run", "quickstart", "--store", address, "--executor", "inline",
               "--set", "model=sum", "--set", "width=8", "--set", "epochs=1", "--set", "steps_per_epoch=2"]  # fmt: skip
    first, second = (subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=200) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert "nothing to run" in second.stdout
    told = subprocess.run(
        [*command[:3], "status", *command[4:7], *command[9:], "--json"], capture_output=True, text=True, cwd=ROOT
    )
    assert json.loads(told.stdout)["missing"] == 0, told.stderr

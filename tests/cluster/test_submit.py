"""Submission to a real head on loopback in token mode: right, wrong and missing token, exit codes, logs, joining."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from cluster.events import ClusterError
from cluster.manifests import KINDS, manifest
from cluster.submit import EXCLUDED, Jobs, packaged
from sweep.study import Study
from sweep.submission import chosen_address, prepared

ROOT = Path(__file__).parents[2]
TOKEN = "0123456789abcdef0123456789abcdef"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """The address of a head's job server. Its processes are children of one that blocks, and end with it."""
    port, gcs = free_port(), free_port()
    command = [
        "ray", "start", "--head", "--block", f"--port={gcs}", "--node-ip-address=127.0.0.1", "--num-cpus=1",
        "--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={port}",
        "--disable-usage-stats", f"--temp-dir={tmp_path_factory.mktemp('r')}", "--object-store-memory=80000000",
    ]  # fmt: skip
    ray = Path(sys.executable).parent / command[0]
    path = f"{ray.parent}{os.pathsep}{os.environ['PATH']}"  # as in an activated environment
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "PATH": path}
    head = subprocess.Popen(
        [str(ray), *command[1:]], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    with pytest.MonkeyPatch.context() as patch:
        use_token(patch, TOKEN)
        for _ in range(120):
            time.sleep(0.5)
            try:
                Jobs(f"http://127.0.0.1:{port}")
            except ClusterError:
                assert head.poll() is None, "the head did not start"
            else:
                break
    yield f"http://127.0.0.1:{port}"
    head.terminate()
    head.wait(timeout=30)


@pytest.fixture(autouse=True, scope="module")
def no_token_afterwards():
    """Ray remembers how it was last to authenticate; later tests in this process do not."""
    yield
    with pytest.MonkeyPatch.context() as patch:
        use_token(patch, None)


def use_token(monkeypatch, token: str | None) -> None:
    """What a user has in the environment."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token" if token else "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", token) if token else monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    from ray._private.authentication_test_utils import reset_auth_token_state

    reset_auth_token_state()


def test_jobs_end_as_they_end_and_a_running_one_is_joined(head, monkeypatch, tmp_path):
    use_token(monkeypatch, TOKEN)
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:1")  # an explicit address wins over it
    (tmp_path / "said.py").write_text("import sys, time; print('from', sys.argv[1], flush=True); time.sleep(6)")
    jobs, log = Jobs(head), []
    job = jobs.submit("one", "python said.py afar", tmp_path, {})
    again = jobs.submit("one", "python said.py afar", tmp_path, {})
    assert again.id == job.id and again.joined and not job.joined
    assert jobs.follow(job.id, log.append) == "SUCCEEDED"
    assert "from afar" in "".join(log) and "".join(log).count("from afar") == 1
    assert jobs.submit("one", "python -c 'exit(1)'", tmp_path, {}).id == "one-2"
    assert jobs.follow("one-2", log.append) == "FAILED" and jobs.status("one-2")[1] == 1
    stopped = jobs.submit("two", "python said.py here", tmp_path, {})
    time.sleep(1)
    jobs.client.stop_job(stopped.id)
    assert jobs.follow(stopped.id, log.append) == "STOPPED"


@pytest.mark.parametrize("token", [None, "f" * 32])
def test_without_the_right_token_it_is_said(head, monkeypatch, token):
    use_token(monkeypatch, token)
    with pytest.raises(ClusterError, match="token"):
        Jobs(head).status("one-1")


def test_a_study_is_submitted_followed_and_not_run_twice(head, monkeypatch, tmp_path):
    use_token(monkeypatch, TOKEN)
    command = [sys.executable, "-m", "sweep", "submit", "quickstart", "--address", head, "--follow"]
    command += ["--store", str(tmp_path / "store"), "--set", "model=sum", "--set", "width=8", "--set", "epochs=1"]
    first = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "submitted sweep-quickstart-" in first.stdout and "12 ok" in first.stdout
    second = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert second.returncode == 0 and "nothing to run" in second.stdout


def study() -> Study:
    return Study.load("quickstart")


def test_what_travels_is_the_checkout_without_what_is_large_or_secret(tmp_path):
    for name in (
        "sweep/cli.py",
        ".git/x",
        ".venv/y",
        "store/trials/z.parquet",
        "a/__pycache__/b.pyc",
        "key.pem",
        "n.toml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    package = packaged(tmp_path, EXCLUDED)
    assert {str(path) for path in package.files} == {"sweep/cli.py", "n.toml"} and package.nbytes == 8


@pytest.mark.parametrize(
    ("store", "address", "said"),
    [
        ("store", "http://10.0.0.1:8265", "cannot be written by the cluster at 10.0.0.1"),
        ("s3://b/p", None, "no --address"),
        ("s3://b/p", "10.0.0.1:8265", "a job server's address is http://HOST:PORT"),
    ],
)
def test_what_cannot_work_is_said_before(monkeypatch, store, address, said):
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Exception, match=said):
        prepared(study(), [], store, address, [])


def test_an_address_of_the_environment_is_used_and_said(monkeypatch, capsys):
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:9")
    assert chosen_address(None) == "http://127.0.0.1:9"
    assert "from RAY_API_SERVER_ADDRESS" in capsys.readouterr().err
    assert chosen_address("http://127.0.0.1:7") == "http://127.0.0.1:7"


def test_a_plain_address_elsewhere_warns_without_a_token(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert "no token is set" in prepared(study(), [], "s3://b/p", "http://10.0.0.1:8265", []).warnings[0]
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert not prepared(study(), [], "s3://b/p", "http://10.0.0.1:8265", []).warnings


def test_one_name_stands_for_a_study_its_sets_and_its_store():
    name = lambda *sets, store="s3://b/p": prepared(study(), sets, store, "http://127.0.0.1:1", []).name  # noqa: E731
    assert name() == name() and len({name(), name("width=8"), name(store="s3://b/q")}) == 3
    assert name("a=1", "b=2") == name("b=2", "a=1")


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_is_yaml_with_what_its_reader_requires(kind):
    text = manifest(
        kind, study="paper/mode-width", store="s3://b/p", command="python -m sweep run x", arguments="run x"
    )
    definition = yaml.safe_load(text)
    if kind == "kuberay":
        assert (definition["apiVersion"], definition["kind"]) == ("ray.io/v1", "RayJob")
        cluster = definition["spec"]["rayClusterSpec"]
        assert cluster["enableInTreeAutoscaling"]
        (workers,) = cluster["workerGroupSpecs"]
        assert workers["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
        assert {each["name"] for each in workers["template"]["spec"]["containers"][0]["env"]} >= {"RAY_AUTH_TOKEN"}
        return
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(definition))
    gpu, head = definition["available_node_types"]["gpu"], definition["available_node_types"]["head"]
    assert gpu["resources"]["GPU"] == 1 and "GPU" not in head["resources"] and head["resources"]["CPU"] == 0
    spot = gpu["node_config"].get("InstanceMarketOptions") or gpu["node_config"]["scheduling"][0]
    assert "spot" in str(spot) or spot["preemptible"]
    starts = definition["head_start_ray_commands"] + definition["worker_start_ray_commands"]
    assert all("RAY_AUTH_MODE=token" in each for each in starts if "ray start" in each)
    assert "--dashboard-host=127.0.0.1" in str(definition["head_start_ray_commands"])

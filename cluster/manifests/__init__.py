"""Cluster definitions for a command: a RayJob for KubeRay, and YAML for Ray's cluster launcher."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jinja2

KINDS = ("kuberay", "aws", "gcp")
RAY = "2.60.0"
"""Named where Ray is not installed here."""

WORKERS = 10
IMAGE = "CHANGE-ME/sweep:latest"


def manifest(kind: str, *, study: str, store: str, command: str, arguments: str, workers: int = WORKERS) -> str:
    """The YAML of a cluster, with comments for the person who applies it.

    Args:
        kind: one of KINDS.
        study: as the command line names it.
        store: a bucket's address.
        command: what a job runs.
        arguments: of `sweep`, for `ray submit`.
        workers: GPUs at most.
    """
    name = re.sub(r"[^a-z0-9]+", "-", f"sweep-{study}".lower())[:40].strip("-")
    try:
        ray = version("ray")
    except PackageNotFoundError:
        ray = RAY
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    template = environment.get_template("kuberay.yaml.j2" if kind == "kuberay" else "launcher.yaml.j2")
    values = {"provider": kind, "study": study, "store": store, "command": command, "arguments": arguments}
    return template.render(**values, name=name, ray=ray, workers=workers, image=IMAGE)

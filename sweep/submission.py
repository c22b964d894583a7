"""`sweep submit`: the same run as a job of a Ray cluster."""

import hashlib
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cluster.events import ClusterError
from cluster.manifests import KINDS, manifest
from cluster.submit import ADDRESS_VARIABLES, MOST_BYTES, Jobs, Package, packaged
from results.places import BUCKETS
from sweep.errors import INFRASTRUCTURE, OK, InfrastructureError, UsageError
from sweep.plugins import files_of
from sweep.run import versions
from sweep.study import Study, study_names

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
CODES = (0, 1, 2, 3, 130)
"""Exit codes of `sweep run` that a submitted run passes on."""


@dataclass(frozen=True)
class Submission:
    """What is to be submitted, and where.

    Attributes:
        address: of the cluster's job server, http://HOST:PORT.
        name: stands for the study, its --set and the store: submitting the same again joins what is running.
        command: what the job runs.
        package: the files that travel.
        study_file: name and text of the study's file, where it does not ship.
        plugin_files: files of the study's plugins, and where they go.
        variables: of the job's environment.
        warnings: what a person should know before.
    """

    address: str
    name: str
    command: str
    package: Package
    study_file: tuple[str, str] | None
    plugin_files: tuple[tuple[Path, Path], ...]
    variables: dict[str, str]
    warnings: tuple[str, ...]


def prepared(study: Study, sets: Sequence[str], store: str, address: str | None, options: Sequence[str]) -> Submission:
    """The submission of a study's run.

    Raises:
        UsageError: no address, a store that the cluster cannot reach, or too much to upload.
    """
    target = chosen_address(address)
    if "--device" in options and options[options.index("--device") + 1] not in ("cpu", "cuda"):
        raise UsageError(f"--device {options[options.index('--device') + 1]}: on a cluster it is auto, cpu or cuda")
    host = urlsplit(target).hostname or ""
    if not store.startswith(BUCKETS):
        if host not in LOOPBACK:
            raise UsageError(
                f"--store {store}: a folder of this machine cannot be written by the cluster at {host}, whose nodes "
                f"would each make one of their own; name a bucket ({' or '.join(BUCKETS)}…)"
            )
        store = str(Path(store).expanduser().resolve())
    root = Path(__file__).resolve().parents[1]
    if not (root / "pyproject.toml").exists():
        raise UsageError(f"sweep is installed in {root}, not run from a checkout: submit from a clone of the project")
    package = packaged(root)
    if package.nbytes > MOST_BYTES:
        largest = ", ".join(f"{path} ({size / 2**20:.0f} MiB)" for path, size in package.largest())
        raise UsageError(f"{package.root} is {package.nbytes / 2**20:.0f} MiB to upload, more than 100: {largest}")
    shipped = study.name in study_names()
    named = study.name if shipped else f"{study.name}.toml"
    arguments = ["run", named, "--store", store, "--address", "auto", *(f"--set={each}" for each in sets), *options]
    own = [path.read_text() for name in study.plugins for path in files_of(name)]
    digest = hashlib.blake2b(
        "\0".join([study.text, *sorted(sets), store, *options, *own]).encode(), digest_size=6
    ).hexdigest()
    plugins = tuple(
        (path, path.relative_to(Path.cwd())) for name in study.plugins for path in files_of(name) if _is_here(path)
    )
    commit = versions()["git_commit"]
    variables = {"SWEEP_GIT_COMMIT": commit} if commit else {}
    name = "".join(letter if letter.isalnum() else "-" for letter in study.name)
    return Submission(
        address=target,
        name=f"sweep-{name}-{digest}",
        command=shlex.join(["python", "-m", "sweep", *arguments]),
        package=package,
        study_file=None if shipped else (named, study.text),
        plugin_files=plugins,
        variables=variables,
        warnings=tuple(_warnings(target, host)),
    )


def chosen_address(address: str | None) -> str:
    """The job server that was named, else that of the environment, which is said. Raises UsageError."""
    given = address
    if given is None:
        for name in ADDRESS_VARIABLES:
            if os.environ.get(name, "").startswith("http"):
                given = os.environ[name]
                print(f"to {given}, from {name}", file=sys.stderr)
                break
    if given is None:
        raise UsageError("no --address: name the cluster's job server, as in --address http://127.0.0.1:8265")
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--address {given}: a job server's address is http://HOST:PORT (port 8265 by default)")
    return given


def _warnings(address: str, host: str) -> list[str]:
    unsafe = address.startswith("http://") and host not in LOOPBACK
    if unsafe and os.environ.get("RAY_AUTH_MODE") != "token":
        return [
            f"{address} is neither encrypted nor on this machine, and no token is set: whoever reaches it runs what "
            "they like there. Tunnel it, and set RAY_AUTH_MODE=token (docs/cluster.md)"
        ]
    return []


def show(submission: Submission) -> None:
    """What would be, or is, submitted."""
    package = submission.package
    print(f"to        {submission.address}")
    print(f"job       {submission.name}-…")
    print(f"runs      {submission.command}")
    print(f"uploads   {len(package.files):,} files of {package.root}, {package.nbytes / 2**20:.1f} MiB; the largest:")
    for path, size in package.largest():
        print(f"          {size / 1024:8,.0f} KiB  {path}")
    for name, value in submission.variables.items():
        print(f"sets      {name}={value}")
    for warning in submission.warnings:
        print(f"sweep: warning: {warning}", file=sys.stderr)


def _is_here(path: Path) -> bool:
    """Whether a file is in the working directory: what is installed must be so on the cluster too."""
    return path.is_relative_to(Path.cwd())


def show_manifest(study: Study, sets: Sequence[str], store: str, kind: str) -> None:
    """Prints a cluster definition for the study.

    Raises:
        UsageError: no such kind, or a store that is no bucket.
    """
    if kind not in KINDS:
        raise UsageError(f"--manifest {kind}: must be one of {', '.join(KINDS)}")
    if not store.startswith(BUCKETS):
        raise UsageError(f"--store {store}: a cluster needs a store in a bucket ({' or '.join(BUCKETS)}…)")
    if study.name not in study_names() or study.plugins:
        raise UsageError(
            f"--manifest is for studies that ship: no node would have {study.given}; submit it to a cluster"
        )
    arguments = ["run", study.given, "--store", store, "--address", "auto", "--device", "cuda", "--wait-for-resources"]
    given = shlex.join([*arguments, *(f"--set={each}" for each in sets)])
    print(manifest(kind, study=study.given, store=store, command=f"python -m sweep {given}", arguments=given), end="")


def submit(submission: Submission, follow: bool) -> int:
    """Submits, or joins what is running, and returns the command's exit code.

    Raises:
        InfrastructureError: the cluster cannot be reached, or refuses.
    """
    try:
        jobs = Jobs(submission.address)
        with tempfile.TemporaryDirectory(prefix="sweep-submit-") as folder:
            submission.package.copy_to(Path(folder))
            for path, target in submission.plugin_files:
                (Path(folder) / target).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / target).write_bytes(path.read_bytes())
            if submission.study_file is not None:
                name, text = submission.study_file
                (Path(folder) / name).write_text(text)
            job = jobs.submit(submission.name, submission.command, Path(folder), submission.variables)
        print(f"{'joined' if job.joined else 'submitted'} {job.id}", flush=True)
        if not follow:
            print(
                f"to see how it goes: sweep submit … --follow, or ray job logs {job.id} --address {submission.address}"
            )
            return OK
        status = jobs.follow(job.id, lambda text: print(text, end="", flush=True))
        _, code, message = jobs.status(job.id)
    except ClusterError as error:
        raise InfrastructureError(str(error)) from None
    print(f"{job.id}: {status.lower()}" + (f" ({message})" if message and status != "SUCCEEDED" else ""))
    if status == "SUCCEEDED":
        return OK
    return code if status == "FAILED" and code in CODES and code else INFRASTRUCTURE

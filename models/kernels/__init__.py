"""Kernels for a CPU, in C++: built once a machine by the compiler that is there, and loaded with ctypes.

What they do takes PyTorch's operations, and what `torch.compile` makes of them, several passes over memory or thousands
of tiny matrix products (docs/performance.md has the measurements). They know no shape: one build serves every study.
Without a compiler everything runs on PyTorch's operations alone, with one warning.

The environment variable SWEEP_KERNELS=off turns them off.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from models.cache import user_cache
from models.kernels.arguments import KINDS

HERE = Path(__file__).parent
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
         "-fassociative-math", "-fno-signed-zeros", "-freciprocal-math", "-Wno-psabi",
         "-Wno-ignored-attributes")  # fmt: skip
"""Sums may be reordered, as vectors need it; NaN and infinity stay what they are, as divergence is told by them."""

NAMES = ("norm", "softmax", "linear")
COMPILERS = ("g++", "clang++", "c++")
BUILD_SECONDS = 300

SUFFIX = {torch.float32: "f32", torch.float64: "f64"}
"""Endings of the kernels' names by the type of their numbers."""


class BuildError(Exception):
    """The kernels cannot be built here."""


def usable(*tensors: Tensor) -> bool:
    """Whether kernels may take these tensors: on a CPU, of a type that they know, and neither traced nor to be rounded
    by autocast."""
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or not enabled():
        return False
    return all(tensor.device.type == "cpu" and tensor.dtype in SUFFIX for tensor in tensors)


@cache
def enabled() -> bool:
    """Whether there are kernels here: wanted, and built without an error. Warns once where they are missing."""
    if os.environ.get("SWEEP_KERNELS") == "off":
        return False
    try:
        with ThreadPoolExecutor(len(NAMES)) as pool:
            list(pool.map(built, NAMES))
        for name in NAMES:
            library(name)
    except (BuildError, OSError) as error:
        warnings.warn(f"no CPU kernels, training will take longer: {error}", RuntimeWarning, stacklevel=2)
        return False
    return True


def all_built() -> bool:
    """Whether there is nothing to build: all is built, or cannot be."""
    try:
        return os.environ.get("SWEEP_KERNELS") == "off" or all(target_of(name).exists() for name in NAMES)
    except BuildError:
        return True


@cache
def kernel(family: str, name: str, dtype: torch.dtype, signature: str) -> Callable[..., None]:
    """A kernel of FAMILY.cpp for numbers of a type; its parameters by letters of `arguments.KINDS`."""
    function = getattr(library(family), f"{name}_{SUFFIX[dtype]}")
    function.argtypes = [KINDS[letter] for letter in signature]
    return function


def pointer(tensor: Tensor | None) -> int | None:
    """Where a tensor's numbers start; None stays None."""
    return None if tensor is None else tensor.data_ptr()


@cache
def library(name: str) -> ctypes.CDLL:
    """The kernels of NAME.cpp, built if they are not yet.

    Raises:
        BuildError: no compiler, or it failed.
        OSError: what was built cannot be kept or loaded.
    """
    return ctypes.CDLL(str(built(name)))


def built(name: str) -> Path:
    """The shared library of NAME.cpp, built if it is not yet.

    Raises:
        BuildError: no compiler, or it failed.
        OSError: what was built cannot be kept.
    """
    target = target_of(name)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            _compile(HERE / f"{name}.cpp", Path(scratch))
            os.replace(Path(scratch) / "kernels.so", target)  # several workers may build at once: the last one stays
    return target


def target_of(name: str) -> Path:
    """Where the library of NAME.cpp is kept: in the user's cache, under a name that stands for its text, compiler and
    processor. Raises BuildError without a compiler."""
    texts = [path.read_text() for path in (*sorted(HERE.glob("*.h")), HERE / f"{name}.cpp")]
    key = hashlib.sha256("\0".join([*_command(), _processor(), *texts]).encode()).hexdigest()[:16]
    return user_cache() / "kernels" / f"{name}-{key}.so"


def _command() -> list[str]:
    """The compiler and its flags."""
    compiler = os.environ.get("CXX") or next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise BuildError(f"there is no C++ compiler ({', '.join(COMPILERS)}, or CXX)")
    return [compiler, *FLAGS, *_processor_flags()]


def _compile(source: Path, folder: Path) -> None:
    """Compiles with OpenMP where it is, and links without: its symbols are those of the library that torch has
    loaded, so that both share their threads."""
    compiler, *flags = _command()
    compiled = [compiler, *flags, "-c", str(source), "-o", str(folder / "kernels.o")]
    if _run([*compiled, "-fopenmp"]):
        problem = _run([*compiled, "-Wno-unknown-pragmas"])
        if problem:
            raise BuildError(f"{compiler} failed: {problem}")
    problem = _run([compiler, "-shared", str(folder / "kernels.o"), "-o", str(folder / "kernels.so")])
    if problem:
        raise BuildError(f"{compiler} failed to link: {problem}")


def _run(command: list[str]) -> str:
    """Why a command failed, in a line; empty if it did not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1] if done.returncode else ""


def _processor_flags() -> list[str]:
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        wide = ["-mprefer-vector-width=512"] if "avx512f" in _processor() else []
        return ["-march=native", *wide]
    return ["-mcpu=native"] if machine in ("arm64", "aarch64") else []


@cache
def _processor() -> str:
    """What tells this processor from others that may share a home folder with it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())

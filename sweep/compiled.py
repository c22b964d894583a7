"""A pack's step compiled by `torch.compile`, once for each shape in a process, and only where that pays."""

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from sweep.optim import Adam
from sweep.step import Outcome, Step

COMPILE_SECONDS = 45.0
"""What compiling a shape takes: 17 to 46 s where it was measured (docs/performance.md)."""

SAVED_SHARE = {"cuda": 0.3}
"""Share of a step's time that compiling saves, by device. On a GPU an expectation until one has been measured. On a CPU
none: `models.kernels` are compiled once for all shapes there, and the compiled step is slower than they are."""

MODES = ("auto", "on", "off")

Update = Callable[[Adam, Tensor, Tensor, Tensor], Outcome]

_compiled: dict[tuple, Update] = {}
_broken: list[str] = []


def pays(mode: str, device: torch.device, key: tuple, seconds_ahead: float) -> bool:
    """Whether to use a compiled step: always where one is there already, else where it saves more than it costs.

    Args:
        mode: "auto", or "on" or "off" to decide it beforehand.
        device: where the pack trains.
        key: of the pack's step, as `compiled_step` has it.
        seconds_ahead: what the steps still to come of this shape would take in this process, not compiled.
    """
    if mode == "off" or _broken:
        return False
    saved = SAVED_SHARE.get(device.type, 0.0) * seconds_ahead
    return mode == "on" or key in _compiled or saved > COMPILE_SECONDS


def compiled_step(step: Step, key: tuple) -> Update:
    """The step compiled. It falls back to the step as it is, with one warning a process, where there is no compiler.

    Args:
        key: stands for all that the program depends on: shape, models, device. Packs with one key share the program.
    """
    if key not in _compiled:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweep" / "inductor"
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache if _writable(cache) else tempfile.mkdtemp()))
        program = torch.compile(step.functional, dynamic=False, fullgraph=True)

        def update(adam: Adam, tokens_MBL: Tensor, labels: Tensor, rate_M1: Tensor) -> Outcome:
            state = ((adam.flat, adam.mean, adam.square), adam.decay)
            try:
                if not _broken:
                    with torch.no_grad():
                        return program(*state, tokens_MBL, labels, rate_M1)
            except Exception as error:  # whatever a compiler may raise; nothing has been updated yet
                reason = str(error).strip().splitlines() or [type(error).__name__]
                _broken.append(reason[0])
                warnings.warn(f"torch.compile does not work here, going on without: {reason[0]}", stacklevel=2)
            with torch.no_grad():
                return step.functional(*state, tokens_MBL, labels, rate_M1)

        _compiled[key] = update
    return _compiled[key]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)

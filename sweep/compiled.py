"""A pack's step compiled by `torch.compile`, once for each shape in a process, and only where that pays."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from models.cache import user_cache
from models.dropout import Dropout
from sweep.optim import Adam
from sweep.step import Outcome, Step

COMPILE_SECONDS = 27.0
"""What compiling a shape takes: 13 to 27 s on the processor beside an H200 (docs/performance.md)."""

SAVED_SHARE = {"cuda": 0.5}
"""Share of a step's time that compiling saves, by device: 49 and 51% on an H200. On a CPU none: `models.kernels` are
compiled once for all shapes there, and the compiled step is slower than they are."""

Update = Callable[[Adam, Tensor, Tensor, Tensor, Dropout | None], Outcome]
"""A step: optimizer, tokens [M, B, L], labels, learning rates [M, 1] and what is dropped → outcome."""

_compiled: dict[tuple, Callable[..., Outcome]] = {}
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


def compiled_step(step: Step, key: tuple, eager: Update) -> Update:
    """The step compiled. Where the compiler fails it is `eager`, with one warning a process.

    Args:
        key: stands for all that the program depends on: shape, models, device. Packs with one key share the program.
    """
    if key not in _compiled:
        cache = user_cache() / "inductor"
        if _writable(cache):
            os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))  # by default it does not outlive a reboot
        _compiled[key] = torch.compile(step.functional, dynamic=False, fullgraph=True)
    program = _compiled[key]

    def update(adam: Adam, tokens_MBL: Tensor, labels: Tensor, rate_M1: Tensor, dropout: Dropout | None) -> Outcome:
        noise = (dropout.keys, dropout.share_M) if dropout else None
        try:
            if not _broken:
                with torch.no_grad(), warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")  # it is the trial's choice
                    return program((adam.flat, adam.mean, adam.square), adam.decay, tokens_MBL, labels, rate_M1, noise)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a compiler may raise; nothing has been updated yet
            reason = " ".join(str(error).split("\n")[:2]).strip() or type(error).__name__
            _broken.append(reason)
            warnings.warn(f"torch.compile does not work here, going on without: {reason}", stacklevel=2)
        return eager(adam, tokens_MBL, labels, rate_M1, dropout)

    return update


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)

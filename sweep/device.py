"""Which device to train on."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sweep.errors import UsageError

if TYPE_CHECKING:
    from sweep.trial import Trial

KINDS = ("auto", "cpu", "cuda", "mps")


def chosen_device(name: str) -> str:
    """The device that `--device` means here: "cpu", "cuda", "cuda:1" or "mps".

    Raises:
        UsageError: no such device, or none on this machine.
    """
    kind, colon, index = name.partition(":")
    if kind not in KINDS or (colon and kind != "cuda"):
        raise UsageError(f"--device {name}: must be one of {', '.join(KINDS)} (or cuda:1 for the second GPU)")
    if kind == "cpu":
        return name
    import torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if kind == "auto":
        return next((device for device, there in available.items() if there), "cpu")
    if not available[kind]:
        raise UsageError(f"--device {name}: this machine has none that torch can use; --device cpu works everywhere")
    if colon and (not index.isdigit() or int(index) >= torch.cuda.device_count()):
        raise UsageError(f"--device {name}: there are {torch.cuda.device_count()} GPUs, cuda:0 the first")
    return name


def free_memory(device: str) -> int | None:
    """Free bytes of a GPU; None for a CPU, and where it cannot be known."""
    if not device.startswith("cuda"):
        return None
    import torch

    return torch.cuda.mem_get_info(torch.device(device))[0]


def check_precision(trials: "Iterable[Trial]", device: str) -> None:
    """Raises UsageError where trials want what a device does not have: their rows would say what is not so."""
    wanted = {trial.precision for trial in trials}
    if "tf32" in wanted and not device.startswith("cuda"):
        raise UsageError(
            f'precision = "tf32": only a CUDA GPU multiplies so, and this would run on {device}; "fp32" does'
        )
    if "fp64" in wanted and device == "mps":
        raise UsageError('precision = "fp64": an Apple GPU has no such numbers; "fp32" does, or --device cpu')

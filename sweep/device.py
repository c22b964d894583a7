"""Which device to train on."""

from sweep.errors import UsageError

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

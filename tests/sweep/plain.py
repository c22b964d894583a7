"""The oracle of training: one plain model at a time, with an update written out tensor by tensor."""

import math
from functools import partial

import numpy as np
import torch
from torch import nn

from models.packed import INIT_STD
from models.plain import PlainModel
from sweep.trial import Trial
from tasks import stream


def start(net: PlainModel, trial: Trial) -> None:
    """Gives a model its trial's initial weights, drawn from the trial's own streams."""
    names = net.packed_names()
    for name, p in net.named_parameters():
        own = names[name]
        with torch.no_grad():
            if p.dim() == 1:
                p.fill_(1.0 if own.endswith(("gain", "nap_gain")) else 0.0)
                continue
            transposed = own.endswith(".weight")
            random = stream(trial.seed, f"init/{own}")
            draw = random.standard_normal(tuple(p.shape[::-1] if transposed else p.shape))
            while (np.abs(draw) > 2).any():
                outside = np.abs(draw) > 2
                draw[outside] = random.standard_normal(outside.sum())
            draw = draw * INIT_STD * (trial.position_scale if own == "position" else trial.init_scale)
            p.copy_(torch.from_numpy(draw.T if transposed else draw))


def drop(net: PlainModel, keys: np.ndarray, trial: Trial) -> None:
    """Sets what the layers of a model drop in one step, with keys [2 · depth, 2]."""

    def dropped(x: torch.Tensor, site: int) -> torch.Tensor:
        left_out = round(trial.dropout * 2**16)
        noise = kept(keys[site], tuple(x.shape), left_out, trial.length)
        return x * torch.from_numpy(noise / (1 - left_out / 2**16))

    for number, layer in enumerate(net.layers):
        layer.drops = [partial(dropped, site=2 * number + branch) for branch in (0, 1)]


def kept(key: np.ndarray, shape: tuple[int, ...], share: int, length: int) -> np.ndarray:
    """Which values [B, L, D] of sequences of `length`, or [B, 1, D] that all tokens share, are kept: lowbias32 of where
    each stands, in numpy, with a key of two words; `share` / 65,536 of them are left out."""
    batch, tokens, width = shape
    first, second = key.astype(np.uint32)
    row = -(-width // 2)
    places = np.arange(batch)[:, None, None] * length * row + np.arange(tokens)[:, None] * row + np.arange(row)
    words = places.astype(np.uint32) ^ first
    words = (words ^ (words >> 16)) * np.uint32(0x7FEB352D) ^ second
    words = (words ^ (words >> 15)) * np.uint32(0x846CA68B)
    words ^= words >> 16
    halves = np.stack([words & 0xFFFF, words >> 16], axis=3).astype(np.uint16).view(np.int16)
    return halves.reshape(batch, tokens, -1)[:, :, :width] >= share - 2**15


def plain_losses(trial: Trial, tokens: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """Losses before each update of a model trained alone, in float64, on batches [steps, B, L]."""
    net = PlainModel(trial.network).double()
    start(net, trial)
    shape = (trial.steps_per_epoch, 2 * trial.depth, 2)
    keys = stream(trial.seed, "dropout").integers(-(2**31), 2**31 - 1, shape, np.int32, endpoint=True)
    names, named = net.packed_names(), list(net.named_parameters())
    mean = {name: torch.zeros_like(p) for name, p in named}
    square = {name: torch.zeros_like(p) for name, p in named}
    losses = []
    for step, (batch, label) in enumerate(zip(tokens, labels)):
        if trial.dropout:
            drop(net, keys[step], trial)
        loss = nn.functional.cross_entropy(net(batch).flatten(0, -2), label.flatten())
        losses.append(loss.item())
        *gradients, rows = torch.autograd.grad(loss, [p for _, p in named] + [net.embedded], materialize_grads=True)
        factor = 1 - step / trial.steps
        if trial.schedule == "warmup_linear" and step < trial.steps // 10:
            factor = step / (trial.steps // 10)
        for (name, p), raw in zip(named, gradients):
            norm = rows.norm() if name == "embedding.weight" else raw.norm()
            clip = min(1.0, trial.clip_norm / max(norm.item(), 1e-300)) if trial.clip_norm else 1.0
            decay = trial.weight_decay if names[name].endswith(".weight") else 0.0
            gradient = raw * clip + decay * p.detach()
            mean[name] = 0.9 * mean[name] + 0.1 * gradient
            square[name] = 0.999 * square[name] + 0.001 * gradient**2
            rate = trial.learning_rate * factor * math.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
            with torch.no_grad():
                p.sub_(rate * mean[name] / (square[name].sqrt() + 1e-7))
    return losses

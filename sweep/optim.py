"""Optimizers and schedules on stacked parameters: every model has its own learning rate and decay."""

from dataclasses import dataclass

import torch
from torch import Tensor

BETA1, BETA2 = 0.9, 0.999
ADAM_EPSILON = 1e-7
"""Keras's default, and added to √v as Keras does: outside the bias correction."""

WARMUP_SHARE = 0.1
"""Share of the steps over which `warmup_linear` rises."""


def schedule_factor(schedule: str, step: int, steps: int) -> float:
    """What multiplies the learning rate at `step` (0-based) of `steps`.

    "linear" falls from 1 to 0. "warmup_linear" rises from 0 over the first tenth, then joins that same falling line: it
    jumps from 1 to 0.9, as in the BERT code that the NAP paper used.
    """
    falling = 1 - step / steps
    if schedule == "linear":
        return falling
    warmup = int(steps * WARMUP_SHARE)
    return step / warmup if step < warmup else falling


def step_factor(schedule: str, step: int, steps: int) -> float:
    """What multiplies a model's learning rate at `step` (0-based) of `steps`: the schedule, and Adam's bias
    correction."""
    return schedule_factor(schedule, step, steps) * (1 - BETA2 ** (step + 1)) ** 0.5 / (1 - BETA1 ** (step + 1))


@dataclass
class Adam:
    """Adam in Keras's form on flat parameters, one row a model.

    Attributes:
        flat: [M, P], all parameters of each model; updated in place.
        mean, square: [M, P], running means of gradients and of their squares.
        decay: [M, P] or None: the L2 penalty's coefficient λ of each parameter. λ·p is added to the gradient, as
            torch.optim.Adam's weight_decay does (Keras's l2(c) is λ = 2c).
    """

    flat: Tensor
    mean: Tensor
    square: Tensor
    decay: Tensor | None

    @classmethod
    def start(cls, flat_MP: Tensor, decay_MP: Tensor | None) -> "Adam":
        """Before the first step."""
        return cls(flat_MP, torch.zeros_like(flat_MP), torch.zeros_like(flat_MP), decay_MP)

    def step(self, gradient_MP: Tensor, rate_M1: Tensor) -> None:
        """One update with learning rates [M, 1], `step_factor` included."""
        if self.decay is not None:
            gradient_MP = torch.addcmul(gradient_MP, self.decay, self.flat)
        self.mean.lerp_(gradient_MP, 1 - BETA1)
        self.square.mul_(BETA2).addcmul_(gradient_MP, gradient_MP, value=1 - BETA2)
        update = self.mean / self.square.sqrt().add_(ADAM_EPSILON)
        self.flat.addcmul_(update, rate_M1, value=-1)


def clip_factors(norm_M: Tensor, limit: float) -> Tensor:
    """What each model's gradient of one tensor is multiplied by so that its norm is at most `limit`; [M]."""
    return limit / norm_M.clamp(min=limit)

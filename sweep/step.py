"""One optimizer step of a pack: by PyTorch's operations as they come, or compiled into one program.

Both are functions of tensors alone and update the optimizer's state in place, so that on a CUDA device either can be
captured in a graph and replayed.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from models.dropout import Dropout
from models.network import Network
from models.packed import Parameters
from sweep.measure import asked_of, losses_and_hits
from sweep.optim import Adam, clip_factors
from sweep.trial import Trial

Outcome = tuple[Tensor, Tensor]
"""Before the update: mean loss [M] and right answers [M]."""


class Step:
    """What a pack's models do in a step.

    Args:
        trial: any of the pack's, for what they share.
        network: of the pack's shape.
        shapes: name → shape of each stacked parameter, [M, …], in the order in which a flat row has them.
    """

    def __init__(self, trial: Trial, network: Network, shapes: dict[str, tuple[int, ...]]):
        self.trial, self.network, self.shapes = trial, network, shapes
        self.sizes = [math.prod(shape[1:]) for shape in shapes.values()]

    def views(self, flat_MP: Tensor) -> dict[str, Tensor]:
        """The parameters as views of flat rows."""
        return {
            name: part.view(shape)
            for (name, shape), part in zip(self.shapes.items(), flat_MP.split(self.sizes, dim=1), strict=True)
        }

    def eager(
        self,
        adam: Adam,
        p: Parameters,
        tokens_MBL: Tensor,
        labels: Tensor,
        rate_M1: Tensor,
        dropout: Dropout | None,
    ) -> Outcome:
        """A step by autograd. `p`: the views of adam.flat, as leaves that require gradients."""
        with products_in(self.trial.precision, tokens_MBL.device):
            embedded, loss_M, correct_M = self.forward(p, tokens_MBL, labels, dropout)
        wanted = [*p.values(), *([embedded] if self.trial.clip_norm else [])]
        gradients = torch.autograd.grad(loss_M.sum(), wanted, materialize_grads=True)
        with torch.no_grad():
            flat = self.clipped(gradients[: len(p)], gradients[-1])
            adam.step(torch.cat([g.flatten(1) for g in flat], dim=1), rate_M1)
        return loss_M.detach(), correct_M

    def functional(
        self,
        state: tuple[Tensor, Tensor, Tensor],
        decay: Tensor | None,
        tokens_MBL: Tensor,
        labels: Tensor,
        rate_M1: Tensor,
        noise: tuple[Tensor, Tensor] | None,
    ) -> Outcome:
        """The same without leaves, as `torch.compile` takes it whole. `state`: `Adam`'s flat, mean and square. `noise`:
        `Dropout`'s keys and shares."""
        adam = Adam(*state, decay)
        dropout = Dropout(*noise) if noise else None

        def total(flat_MP, nudge):  # without types: the compiler does not know those of tuples
            with products_in(self.trial.precision, tokens_MBL.device):
                _, loss_M, correct_M = self.forward(self.views(flat_MP), tokens_MBL, labels, dropout, nudge)
            return loss_M.sum(), (loss_M, correct_M)

        nudge = adam.flat.new_zeros(*tokens_MBL.shape, self.trial.width) if self.trial.clip_norm else adam.flat[:0]
        wanted = (0, 1) if self.trial.clip_norm else (0,)
        gradients, outcome = torch.func.grad(total, argnums=wanted, has_aux=True)(adam.flat, nudge)
        flat = self.clipped(list(self.views(gradients[0]).values()), gradients[-1])
        adam.step(torch.cat([g.flatten(1) for g in flat], dim=1), rate_M1)
        return outcome

    def forward(
        self,
        p: Parameters,
        tokens_MBL: Tensor,
        labels: Tensor,
        dropout: Dropout | None,
        nudge: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings [M, B, L, D] (plus `nudge`, through which their gradient is had), and a step's outcome."""
        embedded = self.network.embedded(p, tokens_MBL)
        if nudge is not None and self.trial.clip_norm:
            embedded = embedded + nudge
        labels, places = asked_of(labels, self.network.spec.asked)
        loss_M, correct_M = losses_and_hits(self.network.scores(p, embedded, dropout, places), labels)
        return embedded, loss_M, correct_M

    def clipped(self, gradients: Sequence[Tensor], embedded_gradient: Tensor) -> list[Tensor]:
        """Gradients of the parameters, clipped tensor by tensor and model by model where the trial says so.

        The embedding's is clipped by the norm of its rows before those of equal tokens are summed: TensorFlow clips
        such a gradient as slices, and the paper's BERT was trained so.
        """
        if not self.trial.clip_norm:
            return list(gradients)
        clipped = []
        for name, gradient in zip(self.shapes, gradients, strict=True):
            measured = embedded_gradient if name == "embedding" else gradient
            factor_M = clip_factors(measured.flatten(1).norm(dim=1), self.trial.clip_norm)
            clipped.append(gradient * factor_M.view(-1, *[1] * (gradient.dim() - 1)))
        return clipped


def products_in(precision: str, device: torch.device) -> AbstractContextManager:
    """The context of a forward pass. With "bf16" matrices are multiplied in bfloat16 by PyTorch's autocast, while
    parameters, norms, losses and the optimizer stay in float32."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()

"""The whole network: tokens to scores, for a stack of models."""

import torch
from torch import Tensor
from torch.nn import functional

from models.blocks import Block
from models.dropout import Dropout
from models.packed import INIT_STD, Parameter, Parameters, fine, linear, linear_parameters
from models.spec import NetworkSpec


class Network:
    """A stack of models of one shape. It holds no weights: they are handed to every call.

    Parameters by name: embedding [V, D]; position [L, D] if learned; per layer `0.query.weight` …; readout.weight,
    .bias.
    """

    def __init__(self, spec: NetworkSpec):
        self.spec = spec
        self.blocks = [Block(spec) for _ in range(spec.depth)]

    def parameters(self) -> dict[str, Parameter]:
        """What one model has, by name, in a fixed order."""
        spec = self.spec
        parameters = {"embedding": Parameter((spec.vocabulary, spec.width))}
        if spec.positions == "learned":
            parameters["position"] = Parameter(
                (spec.length, spec.width), scaled=False, std=INIT_STD * spec.position_scale
            )
        for layer, block in enumerate(self.blocks):
            parameters |= {f"{layer}.{name}": parameter for name, parameter in block.parameters().items()}
        return parameters | linear_parameters("readout", spec.width, spec.outputs)

    def embedded(self, p: Parameters, tokens_MBL: Tensor) -> Tensor:
        """The tokens' embeddings, without positions: [M, B, L, D]."""
        table_MVD = p["embedding"]
        m, vocabulary, d = table_MVD.shape
        offsets = torch.arange(m, device=tokens_MBL.device).view(m, 1, 1) * vocabulary
        return functional.embedding(tokens_MBL + offsets, table_MVD.reshape(m * vocabulary, d))

    def scores(
        self, p: Parameters, x_MBLD: Tensor, dropout: Dropout | None = None, places_MBK: Tensor | None = None
    ) -> Tensor:
        """Class scores from embedded tokens.

        Args:
            dropout: in training.
            places_MBK: for "every_token", the tokens whose scores are wanted; None: all.

        Returns:
            [M, B, C]; C is the sequence's length for the readout "pointer", and where the classes are positions.
            [M, B, L or K, C] for "every_token".
        """
        length = x_MBLD.shape[2]
        if self.spec.positions == "learned":
            x_MBLD = x_MBLD + p["position"][:, None, :length]
        elif self.spec.positions == "sinusoidal":
            x_MBLD = x_MBLD + self.spec.position_scale * sinusoids(length, self.spec.width, x_MBLD)
        for layer, block in enumerate(self.blocks):
            reads = self.spec.reads(length) if layer == self.spec.depth - 1 else slice(0, length)
            x_MBLD = block(within(p, f"{layer}."), x_MBLD, reads, dropout, layer)
        if self.spec.readout == "mean":
            x_MBLD = x_MBLD.mean(dim=2, keepdim=True)
        if places_MBK is not None:
            x_MBLD = x_MBLD.gather(2, places_MBK[..., None].expand(-1, -1, -1, self.spec.width))
        scores = linear(p, "readout", x_MBLD)
        if self.spec.readout == "pointer":
            return scores.squeeze(3)
        if self.spec.positional_classes:  # a shorter sequence has no later positions to point at
            scores = scores[..., :length]
        return scores if self.spec.readout == "every_token" else scores.squeeze(2)

    def __call__(self, p: Parameters, tokens_MBL: Tensor, places_MBK: Tensor | None = None) -> Tensor:
        """Class scores from tokens [M, B, L]; see `scores`."""
        return self.scores(p, self.embedded(p, tokens_MBL), None, places_MBK)


def sinusoids(length: int, width: int, like: Tensor) -> Tensor:
    """Fixed positions [L, D]: sines of geometrically falling frequencies in the first half of the features, cosines in
    the second (Vaswani et al. 2017, section 3.5, features reordered); times 0.02, the scale of the embeddings."""
    half = -(-width // 2)
    on = fine(like.device)
    rates = 10_000.0 ** (-torch.arange(half, **on) / max(half, 1))
    angles = torch.arange(length, **on)[:, None] * rates
    table = torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width] * INIT_STD
    return table.to(like.dtype)


def within(p: Parameters, prefix: str) -> dict[str, Tensor]:
    """The parameters whose names start with `prefix`, without it."""
    return {name[len(prefix) :]: value for name, value in p.items() if name.startswith(prefix)}

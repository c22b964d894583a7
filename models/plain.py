"""One model at a time in plain torch.nn, with textbook attention: the oracle of the tests, and what `sweep bench`
compares packs with.

It shares no computation with the packed models: a mistake there cannot hide here.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.spec import NetworkSpec


class Norm(nn.LayerNorm):
    """Layer norm with Keras's epsilon."""

    def __init__(self, width: int):
        super().__init__(width, eps=1e-3)


def gelu(x: Tensor) -> Tensor:
    """GELU in its tanh form."""
    return functional.gelu(x, approximate="tanh")


def sinusoidal(length: int, width: int) -> Tensor:
    """Fixed positions, written out: [L, D], float64."""
    half = -(-width // 2)
    return torch.tensor(
        [
            [0.02 * (math.sin if d < half else math.cos)(place / 10_000 ** ((d % half) / half)) for d in range(width)]
            for place in range(length)
        ],
        dtype=torch.float64,
    )


def rotary(x: Tensor) -> Tensor:
    """[B, H, L, E] with neighbouring features as complex numbers, turned by their positions."""
    length, width = x.shape[-2:]
    turns = [[place * 10_000 ** (-2 * i / width) for i in range(width // 2)] for place in range(length)]
    angles = torch.tensor(turns, dtype=torch.float64)
    turned = torch.view_as_complex(x.double().unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2).to(x)


class Softmax(nn.Module):
    """softmax(q·k/√E)·v."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
        logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return torch.softmax(logits if seen is None else logits.masked_fill(~seen, -math.inf), dim=-1) @ v


class Normalized(nn.Module):
    """NAP, with its L×L matrix of weights."""

    def __init__(self, heads: int):
        super().__init__()
        self.nap_gain = nn.Parameter(torch.ones(heads))
        self.nap_bias = nn.Parameter(torch.zeros(heads))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
        logits = q @ k.transpose(-1, -2)
        if seen is None:
            deviation = logits.std(dim=-1, keepdim=True, unbiased=False)
            normal = (logits - logits.mean(dim=-1, keepdim=True)) / (deviation + 0.001)
            return (self.nap_gain[:, None, None] * normal + self.nap_bias[:, None, None]) @ v
        rows = []
        for place in range(q.shape[-2]):
            row = logits[..., place, :][..., seen[place]]
            normal = row - row.mean(dim=-1, keepdim=True)
            if row.shape[-1] > 1:  # one alone does not deviate; the root has no gradient there
                normal = normal / (row.std(dim=-1, keepdim=True, unbiased=False) + 0.001)
            weights = self.nap_gain[:, None] * normal + self.nap_bias[:, None]
            rows.append(torch.einsum("bhl,bhle->bhe", weights, v[..., seen[place], :]))
        return torch.stack(rows, dim=-2)


class Unnormalized(nn.Module):
    """NON: the logits are the weights."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
        logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return (logits if seen is None else logits.masked_fill(~seen, 0.0)) @ v


CORES = {"softmax": lambda heads: Softmax(), "nap": Normalized, "non": lambda heads: Unnormalized()}
POOLS = {
    "sum": lambda x: x.sum(dim=1, keepdim=True),
    "max": lambda x: x.max(dim=1, keepdim=True).values,
    "mean": lambda x: x.mean(dim=1, keepdim=True),
    "none": lambda x: torch.zeros_like(x[:, :1]),
}


class Attention(nn.Module):
    """Multi-head attention with any core, and what the block does to the concatenated heads."""

    def __init__(self, spec: NetworkSpec):
        super().__init__()
        self.spec = spec
        self.query, self.key, self.value, self.output = (nn.Linear(spec.width, spec.width) for _ in range(4))
        self.core = CORES[spec.mixer](spec.heads)
        if spec.mix_norm == "layer":
            self.mix_norm = Norm(spec.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.spec.heads, -1)
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        if self.spec.positions == "rotary":
            q, k = rotary(q), rotary(k)
        seen = None
        if self.spec.causal:
            seen = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        heads = self.core(q, k, v, seen).transpose(1, 2).reshape(batch, length, width)
        if self.spec.mix_norm == "layer":
            heads = self.mix_norm(heads)
        if self.spec.mix_norm == "inverse_sqrt_length":
            sees = torch.tensor([place + 1 if self.spec.causal else length for place in range(length)]).to(x)
            heads = heads / sees.sqrt()[:, None]
        if self.spec.mix_activation == "gelu":
            heads = gelu(heads)
        return self.output(heads)


class Pooling(nn.Module):
    """A pooling: of all tokens, or for every token of those up to it."""

    def __init__(self, spec: NetworkSpec):
        super().__init__()
        self.pool, self.causal = POOLS[spec.mixer], spec.causal

    def forward(self, x: Tensor) -> Tensor:
        if not self.causal:
            return self.pool(x)
        return torch.cat([self.pool(x[:, : place + 1]) for place in range(x.shape[1])], dim=1)


class FeedForward(nn.Module):
    """Dense, perhaps norm, GELU, dense; the norm that follows is the layer's."""

    def __init__(self, spec: NetworkSpec):
        super().__init__()
        self.add_module("in", nn.Linear(spec.width, spec.hidden_width))
        self.hidden_norm = Norm(spec.hidden_width) if spec.hidden_norm else nn.Identity()
        self.out = nn.Linear(spec.hidden_width, spec.width)
        self.norm = Norm(spec.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(gelu(self.hidden_norm(getattr(self, "in")(x))))


class Layer(nn.Module):
    """A mixing branch and a feed-forward branch.

    Attributes:
        drops: what acts on the ends of the two, where a test sets it.
    """

    def __init__(self, spec: NetworkSpec):
        super().__init__()
        self.post = spec.norm_placement == "post"
        self.mixing = Attention(spec) if spec.has_heads else Pooling(spec)
        self.branch_norm = Norm(spec.width)
        self.feed_forward = FeedForward(spec)
        self.drops: list[Callable[[Tensor], Tensor]] = [nn.Identity(), nn.Identity()]

    def forward(self, x: Tensor) -> Tensor:
        drop_mixing, drop_feed_forward = self.drops
        if self.post:
            x = self.branch_norm(x + drop_mixing(self.mixing(x)))
            return self.feed_forward.norm(x + drop_feed_forward(self.feed_forward(x)))
        x = x + drop_mixing(self.branch_norm(self.mixing(x)))
        return x + drop_feed_forward(self.feed_forward.norm(self.feed_forward(x)))


class PlainModel(nn.Module):
    """One model of a shape.

    Raises:
        KeyError: a mixer whose plain form is not written here.

    Attributes:
        embedded: the last batch's embeddings, [B, L, D], by whose gradient BERT's embedding is clipped.
    """

    def __init__(self, spec: NetworkSpec):
        super().__init__()
        self.spec = spec
        self.embedding = nn.Embedding(spec.vocabulary, spec.width)
        if spec.positions == "learned":
            self.position = nn.Parameter(torch.zeros(spec.length, spec.width))
        self.layers = nn.ModuleList(Layer(spec) for _ in range(spec.depth))
        self.readout = nn.Linear(spec.width, spec.outputs)

    def packed_names(self) -> dict[str, str]:
        """For each of this module's parameters, its name in a packed network (whose weights are transposed)."""
        names = {}
        for name, _ in self.named_parameters():
            packed = name.removeprefix("layers.").replace("mixing.core.", "").replace("mixing.", "")
            packed = packed.replace("norm.weight", "norm.gain").replace("embedding.weight", "embedding")
            names[name] = packed
        return names

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of tokens [B, L], as a packed network's but for the axis of models."""
        self.embedded = self.embedding(tokens)
        x = self.embedded
        if self.spec.positions == "learned":
            x = x + self.position[: tokens.shape[1]]
        elif self.spec.positions == "sinusoidal":
            x = x + self.spec.position_scale * sinusoidal(tokens.shape[1], self.spec.width).to(x)
        for layer in self.layers:
            x = layer(x)
        if self.spec.readout == "mean":
            return self.readout(x.mean(dim=1))
        scores = self.readout(x)
        if self.spec.readout == "last_token":
            return scores[:, -1]
        if self.spec.readout == "pointer":
            return scores[..., 0]
        if self.spec.positional_classes:
            scores = scores[..., : tokens.shape[1]]
        return scores[:, 0] if self.spec.readout == "first_token" else scores

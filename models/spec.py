"""What determines a network's shape. No torch: `sweep plan` counts parameters and FLOPs with it."""

from dataclasses import dataclass

from models import MIXERS

FEED_FORWARDS = ("4x", "matched")
NORM_PLACEMENTS = ("branch", "post")
MIX_NORMS = ("layer", "inverse_sqrt_length", "none")
ACTIVATIONS = ("gelu", "none")
POSITIONS = ("learned", "sinusoidal", "rotary", "none")
SINGLE = ("first_token", "last_token")
"""Readouts that look at one token."""

PASS_COST = 70
"""FLOPs of a matrix product in the time that norms, activations and residuals take for an element; measured on a CPU,
where they are most of the time of narrow models."""

CAUSAL_PASSES = 6
"""Matrices of weights, of all pairs of tokens, that a causal layer keeps or passes over."""


@dataclass(frozen=True)
class NetworkSpec:
    """The shape of a network.

    Attributes:
        mixer: a name in `models.MIXERS`.
        norm_placement: "branch": x + LN(f(x)); "post": LN(x + f(x)).
        mix_norm: what acts on the concatenated heads: "layer" norm, division by √length, or "none".
        mix_activation: what acts on them then: "gelu" or "none".
        hidden_norm: whether a layer norm acts on the feed-forward's hidden values, before their GELU.
        feed_forward: hidden width, "4x" the model's, or "matched": so wide that a block without projections has as many
            parameters as an attention block.
        positions: "learned", "sinusoidal" (Vaswani et al. 2017), "rotary" (Su et al. 2021) or "none".
        position_scale: factor of sinusoids, and of the deviation that learned positions start with.
        depth, width, heads: layers, width of the stream, heads (1 where the mixer has none).
        length: the longest sequence (that of training); learned positions are as many.
        vocabulary: number of tokens.
        readout: "pointer", "first_token", "last_token", "mean" or "every_token".
        classes: what the readouts other than "pointer" score.
        positional_classes: whether the classes are positions, of which a shorter sequence has fewer.
        causal: whether a token sees those up to itself only.
        asked: for "every_token", how many tokens of a sequence have a label; None: all.
    """

    mixer: str
    norm_placement: str
    mix_norm: str
    mix_activation: str
    hidden_norm: bool
    feed_forward: str
    positions: str
    depth: int
    width: int
    heads: int
    length: int
    vocabulary: int
    readout: str
    classes: int
    positional_classes: bool = False
    causal: bool = False
    position_scale: float = 1.0
    asked: int | None = None

    @property
    def has_heads(self) -> bool:
        """Whether the mixer has heads, and with them an output projection."""
        return MIXERS[self.mixer].heads

    @property
    def hidden_width(self) -> int:
        """Width of the feed-forward's hidden values."""
        d = self.width
        return 4 * d if self.feed_forward == "4x" else round((12 * d + 8) / (2 * d + 1) * d)

    @property
    def outputs(self) -> int:
        """Scores that the readout gives at a token."""
        return 1 if self.readout == "pointer" else self.classes

    def reads(self, length: int) -> slice:
        """The tokens that the readout looks at in a sequence of `length`."""
        first = length - 1 if self.readout == "last_token" else 0
        return slice(first, first + self.read_count(length))

    def read_count(self, length: int) -> int:
        """How many they are."""
        return 1 if self.readout in SINGLE else length

    def answers(self, length: int) -> int:
        """At how many tokens the readout gives scores."""
        return 1 if self.readout == "mean" else self.read_count(length) if self.asked is None else self.asked

    def elements(self, length: int) -> int:
        """Numbers of a sequence in the stream, or as many as its scores, or its weights in a causal mixer, weigh as: a
        layer makes some 26 numbers of each in the stream, and few of these."""
        scores = self.answers(length) * self.outputs // 8
        weights = self.heads * length * length // 4 if self.quadratic else 0
        return max(length * self.width, scores, weights)

    @property
    def quadratic(self) -> bool:
        """Whether layers have the weights of all pairs of tokens: where every query sees other keys."""
        return self.causal and self.has_heads

    def forward_flops(self, length: int) -> float:
        """Floating-point operations of one sequence's forward pass, an addition and a multiplication counting as two.

        Matrix products and the mixer's own only; norms and activations are not counted, and the last layer counts only
        the tokens that are read.
        """
        reads = self.read_count(length)
        products = (self.depth - 1) * self._layer_products(length, length) + self._layer_products(reads, length)
        return 2 * (products + self.answers(length) * self.width * self.outputs)

    def _layer_products(self, queries: int, length: int) -> float:
        """Multiply-adds of a layer of which `queries` tokens are read."""
        d = self.width
        projections = (2 * length + 2 * queries) * d * d if self.has_heads else 0
        entry = MIXERS[self.mixer]
        counted = entry.causal_products if self.causal and entry.causal_products is not None else entry.products
        mixing = counted(queries, length, d, self.heads)
        return projections + mixing + 2 * queries * d * self.hidden_width

    def forward_cost(self, length: int) -> float:
        """What the time of a sequence's forward pass goes with: its FLOPs, and what passes over memory cost beside
        them."""
        tokens = (self.depth - 1) * length + self.read_count(length)
        passes = tokens * (10 * self.width + 6 * self.hidden_width)
        if self.quadratic:
            passes += CAUSAL_PASSES * tokens * length * self.heads
        return self.forward_flops(length) + PASS_COST * passes

    def training_bytes(self, batch: int) -> float:
        """About what training one model in float32 takes of memory: what the backward pass needs of the forward one,
        and parameters with their gradients and the optimizer's two means."""
        tokens, reads = batch * self.length, batch * self.read_count(self.length)
        layers = (self.depth - 1) * tokens + reads
        activations = layers * (10 * self.width + 4 * self.hidden_width) + 4 * tokens * self.width
        activations += 3 * batch * self.answers(self.length) * self.outputs
        if self.quadratic:
            activations += CAUSAL_PASSES * layers * self.length * self.heads
        parameters = self.vocabulary * self.width + self.depth * (4 * self.width + 2 * self.hidden_width) * self.width
        return 4 * (activations + 6 * parameters)

    def train_flops(self, sequences: float) -> float:
        """Operations of training on `sequences` of the training length: a backward pass counts as two forward ones."""
        return 3 * self.forward_flops(self.length) * sequences

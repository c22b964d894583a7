"""What a mixer is."""

from torch import Tensor

from models.packed import Parameter, Parameters


class Mixer:
    """Moves information between tokens. Subclass it in a file of its own; see models/README.md.

    Args:
        width: width of the model, D.
        heads: heads of the mixer; 1 where it has none.
        causal: whether a token sees those up to itself only.
        rotary: whether queries and keys are turned by their positions.

    Attributes:
        shared: whether all tokens get one value, [M, B, 1, D], unless it is causal.

    `causal` and `rotary` are given to mixers that are registered as having them, and only where they are true.
    """

    shared = False

    def __init__(self, width: int, heads: int, causal: bool = False, rotary: bool = False):
        self.width = width
        self.heads = heads
        self.causal = causal
        self.rotary = rotary

    def parameters(self) -> dict[str, Parameter]:
        """The mixer's own parameters by name, without the output projection that the block gives to mixers with
        heads."""
        return {}

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: slice) -> Tensor:
        """The mixed values.

        Args:
            p: stacked parameters, by the names of `parameters`.
            x_MBLD: [M, B, L, D].
            reads: the tokens that anything later looks at: all, or below a readout of one token that one; a slice with
                start and stop.

        Returns:
            [M, B, reads, D]; [M, B, 1, D] where all tokens get the same. With heads: the concatenated heads.
        """
        raise NotImplementedError

    def seen(self, x_MBLD: Tensor, reads: slice) -> tuple[Tensor, bool]:
        """The tokens that those read may see, and whether some of these see fewer than others: only then a mixer has
        to hide anything. What a single token sees ends with it."""
        if not self.causal:
            return x_MBLD, False
        return x_MBLD[:, :, : reads.stop], reads.stop - reads.start > 1

"""What a mixer is."""

from torch import Tensor

from models.packed import Parameter, Parameters


class Mixer:
    """Moves information between tokens. Subclass it in a file of its own; see models/README.md.

    Args:
        width: width of the model, D.
        heads: heads of the mixer; 1 where it has none.
    """

    def __init__(self, width: int, heads: int):
        self.width = width
        self.heads = heads

    def parameters(self) -> dict[str, Parameter]:
        """The mixer's own parameters by name, without the output projection that the block gives to mixers with
        heads."""
        return {}

    def __call__(self, p: Parameters, x_MBLD: Tensor, reads: int) -> Tensor:
        """The mixed values.

        Args:
            p: stacked parameters, by the names of `parameters`.
            x_MBLD: [M, B, L, D].
            reads: how many leading tokens anything later looks at: L, or 1 below a readout of one token; for that of
                the last token, it is moved to the front: mixers see tokens, not their order.

        Returns:
            [M, B, reads, D]; [M, B, 1, D] where all tokens get the same. With heads: the concatenated heads.
        """
        raise NotImplementedError

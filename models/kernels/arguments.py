"""What kernels are handed, as C has it."""

from ctypes import POINTER, Structure, c_double, c_int, c_int64, c_void_p


class Sizes(Structure):
    """`Sizes` of attention.h."""

    _fields_ = [(name, c_int64) for name in ("models", "batch", "reads", "length", "heads", "head_width")]


class Projected(Structure):
    """`Projected` of attention.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("q", "k", "v")),
        *((name, c_int64) for name in ("q_stride", "kv_stride")),
        *((name, c_void_p) for name in ("q_bias", "k_bias", "v_bias")),
        ("bias_stride", c_int64),
    ]


class ProjectedGradient(Structure):
    """`ProjectedGradient` of attention.h."""

    _fields_ = [(name, c_void_p) for name in ("q", "k", "v")] + [(n, c_int64) for n in ("q_stride", "kv_stride")]


KINDS = {
    **{"p": c_void_p, "i": c_int, "n": c_int64, "d": c_double},
    **{"s": POINTER(Sizes), "j": POINTER(Projected), "g": POINTER(ProjectedGradient)},
}
"""Letters of signatures: a pointer, an int, a 64-bit int, a double; sizes, projections and their gradients."""

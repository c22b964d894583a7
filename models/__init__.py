"""Sequence models, many of one shape at once. This module is the registry and loads no torch; how to add a mixer:
models/README.md."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["MIXERS", "MODELS", "MixerEntry", "model_name", "register_mixer", "register_model"]


@dataclass(frozen=True)
class MixerEntry:
    """What is known of a mixer before its code is loaded.

    Attributes:
        path: "module:Class" of a `models.mixers.base.Mixer`.
        heads: whether it has heads; then its block normalises, activates and projects the concatenated heads.
        products: multiply-adds of one sequence's mixing, without projections: (queries, keys, width, heads) → number.
        causal: whether it can hide later tokens.
        causal_products: `products` where it does; None: as many.
        rotary: whether it has queries and keys to turn by their positions.
    """

    path: str
    heads: bool
    products: Callable[[int, int, int, int], float]
    causal: bool = False
    rotary: bool = False
    causal_products: Callable[[int, int, int, int], float] | None = None


MIXERS: dict[str, MixerEntry] = {}
"""Mixers by name."""

MODELS: dict[str, dict[str, object]] = {}
"""Models by name: the parts each stands for. `mixer` is always among them; what is not named keeps its default."""


def register_mixer(
    name: str,
    path: str,
    *,
    heads: bool,
    products: Callable[[int, int, int, int], float],
    causal: bool = False,
    rotary: bool = False,
    causal_products: Callable[[int, int, int, int], float] | None = None,
) -> None:
    """Makes the mixer class at `path` ("module:Class") available as `mixer = NAME`; see `MixerEntry`.

    Raises:
        ValueError: the name is taken by another mixer.
    """
    if name in MIXERS and MIXERS[name].path != path:
        raise ValueError(f"there is a mixer named {name} already: {MIXERS[name].path}")
    MIXERS[name] = MixerEntry(path, heads, products, causal, rotary, causal_products)


def register_model(name: str, *, mixer: str, **parts: object) -> None:
    """Makes `model = NAME` stand for a mixer and the other parts that differ from their defaults.

    Raises:
        ValueError: the mixer is unknown, or the name is taken by another model.
    """
    if mixer not in MIXERS:
        raise ValueError(f"model {name}: there is no mixer named {mixer}; there are {', '.join(MIXERS)}")
    model = {"mixer": mixer, **parts}
    if MODELS.get(name, model) != model:
        raise ValueError(f"there is a model named {name} already: {MODELS[name]}")
    MODELS[name] = model


def model_name(parts: dict[str, object], defaults: dict[str, object]) -> str:
    """The model that `parts` are, or the nearest one and what differs from it: `bert` or `bert(clip_norm=none)`.

    Args:
        parts: every part by name, as resolved.
        defaults: the default of every part.
    """

    def differences(name: str) -> dict[str, object]:
        preset = {**defaults, **MODELS[name]}
        return {part: value for part, value in parts.items() if value is not None and value != preset.get(part)}

    same_mixer = [name for name, model in MODELS.items() if model["mixer"] == parts["mixer"]]
    nearest = min(same_mixer or MODELS, key=lambda name: len(differences(name)))
    changed = ",".join(f"{part}={value}" for part, value in sorted(differences(nearest).items()))
    return f"{nearest}({changed})" if changed else nearest


def _linear_products(per_head: int) -> Callable[[int, int, int, int], float]:
    """Multiply-adds where keys are first multiplied by `per_head` other matrices and queries then by the results."""
    return lambda queries, keys, width, heads: per_head * (queries + keys) * width * width / heads


def _quadratic_products(queries: int, keys: int, width: int, heads: int) -> float:
    return 2 * queries * keys * width


def _pooling_products(queries: int, keys: int, width: int, heads: int) -> float:
    return keys * width / 2  # an addition or comparison an element is half a multiply-add


for _name, _class, _products in (
    ("softmax", "SoftmaxAttention", _quadratic_products),
    ("nap", "NormalizedAttention", _linear_products(2)),
    ("non", "LinearAttention", _linear_products(1)),
):
    register_mixer(
        _name,
        f"models.mixers.attention:{_class}",
        heads=True,
        products=_products,
        causal=True,
        rotary=True,
        causal_products=_quadratic_products,  # every query has other keys: no linear form
    )
for _name, _class, _products in (
    ("sum", "Sum", _pooling_products),
    ("max", "Max", _pooling_products),
    ("mean", "Mean", _pooling_products),
    ("none", "NoMixing", lambda queries, keys, width, heads: 0.0),
):
    register_mixer(_name, f"models.mixers.pooling:{_class}", heads=False, products=_products, causal=True)

register_model("nap", mixer="nap")
register_model("non", mixer="non", mix_norm="inverse_sqrt_length")
register_model("mte", mixer="softmax")
register_model(
    "bert",
    mixer="softmax",
    norm_placement="post",
    mix_norm="none",
    mix_activation="none",
    hidden_norm=False,
    schedule="warmup_linear",
    clip_norm=1.0,
)
register_model("sum", mixer="sum", feed_forward="matched")
register_model("max", mixer="max", feed_forward="matched")
register_model("mean", mixer="mean", feed_forward="matched")
register_model("none", mixer="none", feed_forward="matched")

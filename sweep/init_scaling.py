"""How large what is mixed is before any training, by how many tokens are mixed: the paper's experiment of that name.

Richter & Wattenhofer (arXiv 2005.09561), initialization_scaling_with_aggregation_size.py: a softmax, and a mean even
more, shrink what they mix with the number of tokens, a sum grows it, and a residual stream then drowns the one or
drowns in the other. Beside the paper's five aggregators, every mixer of `models.MIXERS` as training starts it.

    table = scaling_table()
    show_scaling(table)
    write_scaling(table, Path("scaling"))
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models import MIXERS
from models.blocks import make_mixer
from models.packed import stack
from results.canvas import save
from results.cells import Table
from results.csv_files import to_csv
from results.scaling_figure import MIXER, scaling_figure
from sweep.show import say
from sweep.trial import DEFAULTS, Trial
from tasks import stream

LENGTHS = tuple(2**exponent for exponent in range(12))
WIDTH = 128
TOKENS = 16_384
"""Tokens at each length, in samples of that length; there are at least `FEWEST` samples."""

FEWEST = 8
EPSILON = 1e-3
"""What the paper's script adds to the deviation over the features."""

CHUNK = 2**24
"""Numbers of the largest tensor that is made at once, where a single sample has no more: `HEADS` matrices over its
tokens or over its features."""

HEADS = DEFAULTS["heads"]

SHOWN_LENGTHS = 7
"""Columns of the terminal's table."""

Aggregator = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From values, keys and queries, [B, L, D] each, to what is mixed of them: [B, L, D], or [B, 1, D] where every token
gets the same."""


def scaling_table(
    lengths: Sequence[int] = LENGTHS,
    width: int = WIDTH,
    seed: int = 0,
    skipped: Callable[[str], object] = lambda line: None,
) -> Table:
    """Size of what each aggregator gives for standard normal input, at each length. Takes some seconds.

    The paper's five see values, keys and queries that are standard normal themselves (so nothing is projected), with a
    query at every token, as in its script. A mixer sees the values as its input and has the weights with which the
    first layer of a trial of this seed starts; what stands around it (norms, residual, output projection, feed-forward)
    is left out. All see the same numbers.

    Args:
        width: of the tokens. Mixers have as many heads as a trial by default.
        skipped: is told, a line each, of a mixer that cannot take a length, which then has no row.

    Returns:
        One dict an aggregator and length. Columns: aggregator, length, std (population deviation over all numbers that
        come out), norm (mean Euclidean norm of a token's), samples (sequences).

    Raises:
        ValueError: a length or width below 1.
    """
    if min(width, *lengths) < 1:
        raise ValueError(f"lengths and width are at least 1, got {min(width, *lengths)}")
    table = []
    for length in lengths:
        samples = max(FEWEST, TOKENS // length)
        with torch.no_grad(), _one_thread():
            sizes = _sizes(samples, length, width, seed, skipped)
        table += [
            {"aggregator": name, "length": length, "std": size.std, "norm": size.norm, "samples": samples}
            for name, size in sizes.items()
        ]
    names = [*PAPER, *(name + MIXER for name in MIXERS)]
    return sorted(table, key=lambda row: names.index(row["aggregator"]))


def show_scaling(table: Table) -> None:
    """Prints `scaling_text`."""
    say(scaling_text(table))


def scaling_text(table: Table) -> str:
    """Deviations and norms as two tables of at most 80 columns, with some of the lengths; the CSV has all."""
    lengths = sorted({row["length"] for row in table})
    shown = sorted({lengths[round(i)] for i in np.linspace(0, len(lengths) - 1, SHOWN_LENGTHS)})
    names = list(dict.fromkeys(row["aggregator"] for row in table))
    wide = max(map(len, names))
    blocks = []
    for column, title in (("std", "standard deviation by length"), ("norm", "norm by length")):
        found = {(row["aggregator"], row["length"]): f"{row[column]:.3g}" for row in table}
        lines = [title, " " * wide + "".join(f"{length:9,}" for length in shown)]
        lines += [name.ljust(wide) + "".join(f"{found.get((name, each), '-'):>9}" for each in shown) for name in names]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def write_scaling(table: Table, out: Path) -> list[Path]:
    """Writes init-scaling.png, .svg and .csv into a folder, which is made where it is not there; returns their paths.

    Raises: OSError.
    """
    out.mkdir(parents=True, exist_ok=True)
    to_csv(table, out / "init-scaling.csv")
    return [*save(scaling_figure(table), out / "init-scaling"), out / "init-scaling.csv"]


def _softmax(values: Tensor, keys: Tensor, queries: Tensor) -> Tensor:
    return torch.softmax(queries @ keys.transpose(1, 2) / math.sqrt(keys.shape[2]), dim=2) @ values


def _normalized_sum(values: Tensor, *_: Tensor) -> Tensor:
    """The sum, normalised over its features (not over the keys, as NAP does)."""
    total = values.sum(dim=1, keepdim=True)
    deviation, mean = torch.std_mean(total, dim=2, correction=0, keepdim=True)
    return (total - mean) / (deviation + EPSILON)


PAPER: dict[str, Aggregator] = {
    "softmax attention": _softmax,
    "mean": lambda values, *_: values.mean(dim=1, keepdim=True),
    "sum": lambda values, *_: values.sum(dim=1, keepdim=True),
    "max": lambda values, *_: values.amax(dim=1, keepdim=True),
    "normalized": _normalized_sum,
}
"""The paper's aggregators."""


def _sizes(samples: int, length: int, width: int, seed: int, skipped: Callable[[str], object]) -> dict[str, "Size"]:
    """What each aggregator that takes the length gives, over all samples."""
    aggregators = {**PAPER, **_mixers(length, width, seed, skipped)}
    sizes = {name: Size() for name in aggregators}
    for values, keys, queries in _input(samples, length, width, seed):
        for name in [*sizes]:
            try:
                sizes[name].add(aggregators[name](values, keys, queries))
            except (ValueError, RuntimeError) as error:  # what a mixer, or torch within it, says of a length
                skipped(_cannot(name, length, error))
                del sizes[name]
    return sizes


def _cannot(name: str, length: int, error: Exception) -> str:
    return f"{name} cannot mix {length} tokens: {(str(error) or type(error).__name__).splitlines()[0]}"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch on one thread: in pieces this small several mostly wait for each other, for seconds on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _mixers(length: int, width: int, seed: int, skipped: Callable[[str], object]) -> dict[str, Aggregator]:
    """The mixers that there are, by their labels, for sequences of `length`."""
    mixers: dict[str, Aggregator] = {}
    for name in MIXERS:
        try:
            # The task is of no account here, but that its sequences have two tokens or more, and no positions.
            trial = Trial.from_values({"task": "mode", "mixer": name, "width": width, "length": max(length, 2)})
            mixer = make_mixer(trial.network)
        except (ValueError, RuntimeError) as error:
            skipped(_cannot(name + MIXER, length, error))
            continue
        start = stack(mixer.parameters(), [(lambda parameter: stream(seed, f"init/0.{parameter}"), trial.init_scale)])
        parameters = {parameter: torch.from_numpy(array).float() for parameter, array in start.items()}
        mixers[name + MIXER] = partial(_mixed, mixer, parameters)
    return mixers


def _mixed(mixer: Callable[..., Tensor], parameters: dict[str, Tensor], values: Tensor, *_: Tensor) -> Tensor:
    return mixer(parameters, values[None], slice(0, values.shape[1]))[0]


def _input(samples: int, length: int, width: int, seed: int) -> Iterator[list[Tensor]]:
    """Values, keys and queries of some samples at a time, [B, L, D] each; the same whatever CHUNK is."""
    streams = [stream(seed, f"init-scaling/{what}", length) for what in ("values", "keys", "queries")]
    size = max(1, CHUNK // (HEADS * max(length, width) ** 2))
    for first in range(0, samples, size):
        shape = (min(size, samples - first), length, width)
        yield [torch.from_numpy(random.standard_normal(shape, np.float32)) for random in streams]


class Size:
    """Deviation and norm of tokens [B, L, D], piece by piece."""

    def __init__(self) -> None:
        self.count, self.tokens = 0, 0
        self.total, self.squares, self.norms = 0.0, 0.0, 0.0

    def add(self, tokens: Tensor) -> None:
        """Counts more tokens."""
        norms = torch.linalg.vector_norm(tokens, dim=-1).double()
        self.count += tokens.numel()
        self.tokens += norms.numel()
        self.total += tokens.sum(dim=-1).double().sum().item()
        self.squares += norms.square().sum().item()
        self.norms += norms.sum().item()

    @property
    def std(self) -> float:
        """Population deviation over all numbers."""
        variance = self.squares / self.count - (self.total / self.count) ** 2
        return 0.0 if variance < 0 else math.sqrt(variance)  # below 0 by rounding; NaN stays

    @property
    def norm(self) -> float:
        """Mean Euclidean norm of a token."""
        return self.norms / self.tokens

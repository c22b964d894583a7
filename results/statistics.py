"""The statistics of reports: functions of numbers alone, so that each is tested on its own."""

import math
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np

RESAMPLES = 1000
CONFIDENCE = 0.95
PERMUTATIONS = 10_000
EXACT = 12
"""Up to so many pairs all 2^n flips are tried."""

BLOCK = 500
"""Flips that are drawn at a time: memory stays bounded."""


def resampled_means(groups: Sequence[Sequence[float]], resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Bootstrap means of groups: within each, as many members as it has are drawn with replacement.

    Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapter 8: the members of a group (a cell's seeds) are
    exchangeable, those of different groups are not. Deviations from a group's mean are widened by √(n / (n − 1)), so
    that they spread as the standard error does even where a group has two members (Rao & Wu, "Resampling inference with
    complex survey data", 1988).

    Returns:
        [resamples, groups], float64.
    """
    random = np.random.default_rng(seed)
    found = np.empty((resamples, len(groups)))
    by_size: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        by_size.setdefault(len(group), []).append(number)
    for size, numbers in by_size.items():
        members = np.array([groups[number] for number in numbers])  # [G, size]
        total = np.zeros((resamples, len(numbers)))
        rows = np.arange(len(numbers))
        for _ in range(size):
            total += members[rows, random.integers(size, size=total.shape)]
        mean = members.mean(axis=1)
        found[:, numbers] = mean + (total / size - mean) * math.sqrt(size / max(size - 1, 1))
    return found


def interval(samples: np.ndarray, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The percentile interval of bootstrap samples."""
    low, high = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def expected_best(scores: Sequence[float], count: int) -> float:
    """The expected largest of `count` scores drawn at random, with replacement, from `scores`.

    Expected validation performance: Dodge et al., "Show Your Work: Improved Reporting of Experimental Results",
    EMNLP 2019, equation 1: Σ v₍ᵢ₎ · ((i/n)^k − ((i−1)/n)^k) over the scores in ascending order.
    """
    ascending = np.sort(np.asarray(scores, float))
    shares = (np.arange(len(ascending) + 1) / len(ascending)) ** count
    return float((ascending * np.diff(shares)).sum())


def sign_flip_p_values(differences_NK: np.ndarray, permutations: int = PERMUTATIONS, seed: int = 0) -> np.ndarray:
    """Two-sided p-values of K sets of paired differences, under the hypothesis that each difference is as likely to
    have the other sign; NaN where a pair is missing. [N, K] → [K].

    The sign-flip (Fisher's) permutation test: Good, Permutation, Parametric and Bootstrap Tests of Hypotheses (2005),
    section 3.2. Exact for up to 12 pairs; else by `permutations` random flips, the observed one counted in (Phipson &
    Smyth 2010), so that no p-value is 0.
    """
    present = np.isfinite(differences_NK)
    differences = np.where(present, differences_NK, 0.0)
    observed = np.abs(differences.sum(axis=0))
    close = 1e-6 * np.abs(differences).sum(axis=0)
    pairs = int(present.any(axis=1).sum())
    if pairs <= EXACT:
        kept = differences[present.any(axis=1)]
        flips = np.array(list(product((1.0, -1.0), repeat=pairs))).reshape(2**pairs, pairs)
        return (np.abs(flips @ kept) >= observed - close).mean(axis=0)
    random, reached = np.random.default_rng(seed), np.zeros(differences.shape[1])
    for start in range(0, permutations, BLOCK):
        count = min(BLOCK, permutations - start)
        flips = random.integers(2, size=(count, len(differences)), dtype=np.int8).astype(np.float32) * 2 - 1
        reached += (np.abs(flips @ differences.astype(np.float32)) >= observed - close).sum(axis=0)
    return (reached + 1) / (permutations + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number: Holm, "A simple sequentially rejective multiple test procedure" (1979)."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[number]))
        corrected[number] = largest
    return corrected


def longest_run_decades(places: Sequence[float], good: Sequence[bool]) -> float:
    """How many decades the longest unbroken run of good places spans, of ascending positive places.

    Each place stands for the values up to half-way to its neighbours (on a log scale), the outermost for as much on
    their other side: a single good place in a grid of thirds is half a decade wide, not none.
    """
    if len(places) < 2:
        return 0.0
    logs = [math.log10(place) for place in places]
    middles = [(low + high) / 2 for low, high in pairwise(logs)]
    edges = [2 * logs[0] - middles[0], *middles, 2 * logs[-1] - middles[-1]]
    longest, start = 0.0, None
    for number, is_good in enumerate([*good, False]):
        if is_good and start is None:
            start = number
        elif not is_good and start is not None:
            longest, start = max(longest, edges[number] - edges[start]), None
    return longest


def difference_interval(
    ours: Sequence[float], theirs: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Welch's interval of the difference of two means (unequal variances); None with fewer than two on either side."""
    if len(ours) < 2 or len(theirs) < 2:
        return None
    from scipy.stats import t

    difference = float(np.mean(ours) - np.mean(theirs))
    parts = [float(np.var(values, ddof=1)) / len(values) for values in (ours, theirs)]
    spread = sum(parts)
    if spread == 0:
        return difference, difference
    freedom = spread**2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, (ours, theirs), strict=True))
    half = float(t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(spread)
    return difference - half, difference + half

"""The statistics against what can be worked out by hand or drawn from a known world."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import ttest_ind

from results.statistics import (
    difference_interval,
    expected_best,
    holm,
    interval,
    longest_run_decades,
    resampled_means,
    sign_flip_p_values,
)


def test_resampled_means_spread_as_the_standard_error_does():
    random = np.random.default_rng(1)
    groups = [list(random.normal(number, 1 + number, size)) for number, size in enumerate((5, 20, 20))]
    samples = resampled_means(groups, resamples=20_000)
    for group, found in zip(groups, samples.T, strict=True):
        assert found.mean() == pytest.approx(np.mean(group), abs=0.05)
        assert found.std() == pytest.approx(np.std(group, ddof=1) / math.sqrt(len(group)), rel=0.05)


def test_resampling_keeps_to_its_group_and_a_group_of_one_never_moves():
    samples = resampled_means([[0.5], [1.0, 2.0]])
    assert (samples[:, 0] == 0.5).all()
    assert sorted(set(samples[:, 1])) == pytest.approx([1.5 - math.sqrt(0.5), 1.5, 1.5 + math.sqrt(0.5)])


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    random, covered = np.random.default_rng(0), 0
    for number in range(300):
        groups = random.normal(size=(40, 2))
        low, high = interval(resampled_means(groups.tolist(), 400, seed=number).mean(axis=1))
        covered += low <= 0 <= high
    assert 0.88 < covered / 300 < 0.98


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_expected_best_is_the_mean_over_all_draws(k):
    scores = [0.1, 0.7, 0.4, 0.4]
    every = [max(draw) for draw in itertools.product(scores, repeat=k)]
    assert expected_best(scores, k) == pytest.approx(np.mean(every))


def test_few_pairs_are_flipped_in_every_way():
    differences = np.array([[1.0], [2.0], [3.0]])
    assert sign_flip_p_values(differences) == pytest.approx([2 / 8])  # only all and none reach the sum of 6
    assert sign_flip_p_values(np.array([[1.0], [-1.0]])) == pytest.approx([1.0])


def test_many_pairs_give_what_the_exact_test_gives():
    random = np.random.default_rng(3)
    differences = random.normal(0.5, 1, size=(12, 1))
    exact = sign_flip_p_values(differences)[0]
    more = np.concatenate([differences, np.zeros((5, 1))])  # pairs without a difference change nothing
    assert sign_flip_p_values(more)[0] == pytest.approx(exact, abs=0.02)


def test_p_values_are_uniform_where_nothing_differs_and_missing_pairs_are_passed_over():
    random = np.random.default_rng(2)
    differences = random.normal(size=(30, 400))
    differences[random.random(differences.shape) < 0.2] = np.nan
    p_values = sign_flip_p_values(differences, permutations=2000)
    assert (p_values > 0).all() and 0.02 < (p_values < 0.05).mean() < 0.09
    assert sign_flip_p_values(np.full((20, 1), 0.3))[0] < 0.001


def test_holm_multiplies_the_smallest_most_and_never_reorders():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0]) and holm([]) == []


def test_a_run_of_learning_rates_is_as_wide_as_what_its_places_stand_for():
    rates = [1e-4, 1e-3, 1e-2, 1e-1]
    assert longest_run_decades(rates, [False, True, False, False]) == pytest.approx(1.0)
    assert longest_run_decades(rates, [True, False, True, True]) == pytest.approx(2.0)
    assert longest_run_decades(rates, [True] * 4) == pytest.approx(4.0)
    assert longest_run_decades(rates, [False] * 4) == longest_run_decades([0.1], [True]) == 0.0


def test_a_difference_has_welchs_interval():
    ours, theirs = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0]
    low, high = ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    assert difference_interval(ours, theirs) == pytest.approx((low, high))
    assert difference_interval([1.0], [1.0, 2.0]) is None
    assert difference_interval([1.0, 1.0], [0.5, 0.5]) == (0.5, 0.5)

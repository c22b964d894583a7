"""A grid expanded quickly has the very trials that its values make one by one."""

import pytest

from sweep.study import Study
from sweep.trial import INDEPENDENT, Trial, Variants

BODY = """
title = "t"
task = "cases"
[[grid]]
model = ["nap", "sum"]
heads = [1, 4]
init_scale = [1, 0.5]
learning_rate = { base = 0.3, from = 1, to = 3 }
weight_decay = [0, 0.1]
seed = { count = 2 }
[[grid]]
model = ["nap", "bert"]
width = [8, 128]
seed = [1, 9007199254740993]
"""


def test_every_point_is_the_trial_that_its_values_make():
    study = Study("t", BODY)
    one_by_one = [Trial.from_values({**study.fixed, **point}) for grid in study.grids for point in grid.points()]
    assert list(study.ids()) == [trial.id for trial in one_by_one]
    distinct = list(dict.fromkeys(one_by_one))
    assert list(study.trials()) == distinct
    assert [trial.id for trial in study.trials()] == [trial.id for trial in distinct]
    assert len(distinct) == study.size < study.points_count


def test_a_variant_is_like_a_trial_made_from_scratch_in_every_value_and_its_type():
    first = Trial.from_values({"task": "mode", "model": "nap"})
    made = Variants(first).trial({"learning_rate": 0.5, "seed": 3})
    scratch = Trial.from_values({"task": "mode", "model": "nap", "learning_rate": 0.5, "seed": 3})
    assert (made, made.id, hash(made), repr(made)) == (scratch, scratch.id, hash(scratch), repr(scratch))


@pytest.mark.parametrize("name", INDEPENDENT)
def test_no_other_value_follows_from_an_independent_one(name):
    values = {"task": "cases", "model": "bert"}
    other = {**Trial.from_values(values).as_dict(), name: 7}
    assert Trial.from_values({**values, name: 7}).as_dict() == other

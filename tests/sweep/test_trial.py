"""Law 1: a trial is identified by its content, by all of it and by nothing else."""

import random

import pytest

import sweep.trial
from models import MODELS
from results.schema import VALUES
from results.store import Store
from sweep.errors import UsageError
from sweep.plan import make_plan
from sweep.study import Study
from sweep.trial import FIELDS, IDENTITY_VERSION, Trial, as_row, identity

BASE = dict(task="cases", model="nap", learning_rate=0.00243)


def trial(**values) -> Trial:
    return Trial.from_values({**BASE, **values})


def from_toml(body: str) -> list[Trial]:
    return list(Study("test", f'title = "t"\ntask = "cases"\n[grid]\nmodel = ["nap"]\n{body}\n').trials())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("learning_rate = [1e-5]", "learning_rate = [0.00001]"),
        ("learning_rate = [1e0]", "learning_rate = [1]"),
        ("eval_samples = [3e6]", "eval_samples = [3_000_000]"),
        ("learning_rate = { base = 0.3, from = 5, to = 5 }", "learning_rate = [0.00243]"),
        ("init_scale = { base = 4, from = -3, to = -3 }", "init_scale = [0.015625]"),
        ("width = [8]\nlength = [16]", "length = [16]\nwidth = [8]"),
        ("depth = [2]", ""),
    ],
)
def test_what_is_written_otherwise_is_the_same_trial(one, other):
    assert from_toml(one)[0].id == from_toml(other)[0].id


@pytest.mark.parametrize("name", FIELDS)
def test_every_value_is_part_of_the_identity(name):
    value = trial().as_dict()[name]
    other = {bool: not value, str: "something else"}.get(type(value), 7)
    assert identity({**trial().as_dict(), name: other}) != trial().id


def test_an_id_is_a_function_of_values_not_of_their_order_or_of_the_process():
    shuffled = list(trial().as_dict().items())
    random.Random(0).shuffle(shuffled)
    assert identity(dict(shuffled)) == trial().id
    assert len(trial().id) == 32


def test_released_ids_never_change():
    assert IDENTITY_VERSION == 1
    assert trial().id == GOLDEN["nap"]
    assert trial(model="bert", width=16, seed=3).id == GOLDEN["bert"]
    assert Trial.from_values(dict(task="mode", model="sum")).id == GOLDEN["sum"]


def test_a_value_at_its_default_is_left_out_so_a_new_field_changes_no_old_id(monkeypatch):
    monkeypatch.setitem(sweep.trial._CANONICAL_DEFAULTS, "a_later_field", "as before")
    assert identity({**trial().as_dict(), "a_later_field": "as before"}) == trial().id
    assert identity({**trial().as_dict(), "a_later_field": "otherwise"}) != trial().id


def test_true_is_not_1_but_1_is_one():
    assert trial(learning_rate=1).id == trial(learning_rate=1.0).id
    assert identity({"a": True}) != identity({"a": 1})
    with pytest.raises(UsageError, match="seed = true"):
        from_toml("seed = [true]")
    with pytest.raises(UsageError, match="hidden_norm = 1"):
        from_toml("hidden_norm = [1]")


def test_a_row_of_an_older_store_has_the_default_of_what_came_later():
    for model in ("nap", "sum"):
        original = Trial.from_values(dict(task="mode", model=model))
        assert Trial.from_row({**as_row(original), "precision": None, "weight_decay": None}) == original


def test_identity_is_by_parts_so_bert_with_mtes_parts_is_mte():
    parts = dict(norm_placement="branch", mix_norm="layer", mix_activation="gelu", hidden_norm=True)
    changed = trial(model="bert", **parts, schedule="linear", clip_norm=0.0)
    assert changed == trial(model="mte")
    assert changed.model == "mte"
    assert trial(model="bert", schedule="linear").model == "bert(schedule=linear)"


def test_cases_first_is_cases_read_at_the_first_token():
    assert trial(task="cases_first").id == trial(task="cases", readout="first_token").id != trial().id


def test_heads_are_nothing_to_a_model_without_heads():
    assert trial(model="sum", heads=2).id == trial(model="sum", heads=8).id
    assert trial(model="sum", width=9, heads=4).heads is None
    assert trial(heads=2).id != trial(heads=8).id


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        (dict(samples_per_epoch=3200, batch_size=8), 400),
        (dict(samples_per_epoch=3200, batch_size=128), 25),
        (dict(task="mode", samples_per_class=400, vocabulary=256), 3200),
        (dict(task="mode", samples_per_class=400, vocabulary=2), 25),
    ],
)
def test_couplings_are_followed_and_leave_no_other_trace(values, steps):
    assert trial(**values).steps_per_epoch == steps
    plain = {name: value for name, value in values.items() if not name.startswith("samples_per")}
    assert trial(**values).id == trial(**plain, steps_per_epoch=steps).id


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (dict(width=9), "4 heads do not divide it"),
        (dict(vocabulary=50), "no token 64"),
        (dict(length=1), "at least 2 tokens"),
        (dict(task="mode", positions="learned"), "evaluated at length 256"),
        (dict(task="mode", case_bias=1), "no cases to bias"),
        (dict(task="local_global", readout="pointer"), "can be read as every_token"),
        (dict(samples_per_epoch=16), "has no step"),
        (dict(samples_per_epoch=16, steps_per_epoch=3), "say the same thing twice"),
        (dict(task="caes"), "did you mean cases"),
        (dict(model="nop"), "did you mean non or nap|did you mean nap or non|did you mean"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_reason(values, says):
    with pytest.raises(UsageError, match=says):
        trial(**values)


def test_a_trial_comes_back_from_its_row():
    for model in MODELS:
        original = trial(model=model)
        assert Trial.from_row(as_row(original)) == original


def test_a_stores_columns_are_a_trials_values_and_what_follows_from_them():
    assert {name for name, _ in VALUES} == {*FIELDS, "model", "eval_length"}


GOLDEN = {
    "nap": "c0978666bd373f08c51423cd586561fe",
    "bert": "6fe23fe068d9ef690ec1ed082a85ce27",
    "sum": "646d94cebbea792ebbe5212f1688f20a",
}
"""Ids that were released. If one changes, IDENTITY_VERSION must move, and every stored result is orphaned: do not."""


def test_a_tasks_own_values_are_part_of_its_trials_and_of_no_others():
    recall = Trial.from_values(dict(task="recall", model="nap", filler=10))
    assert (recall.pairs, recall.values, recall.length) == (8, 32, 28)
    fewer = Trial.from_values(dict(task="recall", model="nap", pairs=4, filler=10))
    assert fewer.length == 20 and fewer.id != recall.id and fewer.shape != recall.shape
    assert Trial.from_values(dict(task="recall", model="nap", length=28)) == recall
    assert trial().pairs is None
    assert Trial.from_row(as_row(recall)) == recall


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (dict(task="mode", pairs=3), "pairs = 3: task mode has none"),
        (dict(task="mode", filler=3), "filler = 3: task mode has none"),
        (dict(task="recall", filler=3, length=50), "filler and length say the same thing twice"),
        (dict(task="recall", length=17), "8 pairs, the marker and the key at the end take 18"),
        (dict(task="first", readout="first_token"), "task first can be read as last_token or mean"),
        (dict(task="dyck", length=9), "length = 9: brackets come in pairs"),
    ],
)
def test_what_a_task_cannot_have_is_said(values, says):
    with pytest.raises(UsageError, match=says):
        Trial.from_values({"model": "nap", **values})


def test_further_evaluation_lengths_are_part_of_the_identity_and_said_in_any_order():
    one = Trial.from_values(dict(task="mode", model="nap", eval_lengths="64,512"))
    assert one.judged_lengths == (256, 64, 512) and one.id != Trial.from_values(dict(task="mode", model="nap")).id
    body = 'title = "t"\ntask = "mode"\n[fixed]\neval_lengths = [512, 64]\n[grid]\nmodel = ["nap"]\n'
    (other,) = Study("test", body).trials()
    (third,) = Study("test", body.replace("[512, 64]", "[1]"), ["eval_lengths=64,512"]).trials()
    assert other == third == one and Trial.from_row(as_row(one)) == one


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            dict(task="first", eval_lengths="256"),
            "evaluated at length 256, beyond the 128 positions that training learns",
        ),
        (dict(task="cases", eval_lengths="256", positions="none"), "the answers of cases are positions"),
        (dict(task="dyck", eval_lengths="7", positions="none"), "length = 7: brackets come in pairs"),
    ],
)
def test_lengths_that_cannot_be_judged_are_refused(values, says):
    with pytest.raises(UsageError, match=says):
        Trial.from_values({"model": "nap", **values})


@pytest.mark.parametrize("said", ["[64, 64]", "[1.5]", "[]", '["a"]', "[0]", "true"])
def test_a_list_of_lengths_that_is_none_is_said(said):
    with pytest.raises(UsageError, match=r"eval_lengths = .* must be a list of different lengths"):
        Study("test", f'title = "t"\ntask = "mode"\n[fixed]\neval_lengths = {said}\n[grid]\nmodel = ["nap"]\n')


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ('model = ["nap"]\ndepth = [0]', r"grid\.depth: depth = 0: must be at least 1"),
        ('model = ["nap"]\nwidth = [16, 20]\nheads = [8]', "width = 20: 8 heads do not divide it; use a multiple of 8"),
        ('model = ["nap", "sum"]\npositions = ["rotary"]', "mixer sum has no queries and keys to turn; it can be had"),
        ('model = ["mte"]\npositions = ["rotary"]\nwidth = [12]', "in 4 heads is 3 features each: an even number"),
        ('model = ["mte"]\ndropout = [1.0]', r"dropout.*1.*at most 0.999|less than or equal to 0.999"),
        ('model = ["mte"]\ndropout = [-0.1]', r"dropout.*at least 0"),
        ('model = ["mte"]\nposition_scale = [0]', r"position_scale.*greater than 0"),
        (
            'model = ["mte"]\ncausal = [true]',
            "task mode is read at its first token here, which sees",
        ),
        ('model = ["mte"]\ncausal = [1]', "causal = 1: must be true or false"),
        ('model = ["mte"]\ntask = ["mqar"]\npairs = [40]', "40 pairs and a slot of 2 tokens for each key's question"),
        ('model = ["mte"]\ntask = ["mqar"]\nvalues = [4]', "values = 4: task mqar has none"),
        ('model = ["mte"]\ntask = ["mqar"]\nreadout = ["last_token"]', "task mqar can be read as every_token"),
        ('model = ["mte"]\ntask = ["listops"]\nvocabulary = [20]', "the tokens of listops are 16"),
    ],
)
def test_a_bad_value_in_the_second_block_of_a_union_is_found_before_anything_runs(block, says):
    where = "" if "task" in block else 'task = ["mode"]\n'
    body = f'title = "t"\n[[grid]]\ntask = ["mode"]\nmodel = ["nap", "sum"]\n[[grid]]\n{where}{block}\n'
    with pytest.raises(UsageError, match=says):
        make_plan(Study("test", body), Store("nowhere"))


def test_what_positions_do_not_use_is_no_part_of_the_identity():
    without = dict(task="mode", model="nap", positions="none")
    one, other = (Trial.from_values({**without, "position_scale": scale}) for scale in (1.0, 5.0))
    assert one.id == other.id and one == other
    scaled = Trial.from_values(dict(task="mode", model="nap", positions="sinusoidal", position_scale=5.0))
    assert scaled.id != Trial.from_values(dict(task="mode", model="nap", positions="sinusoidal")).id
    assert Trial.from_row(as_row(scaled)) == scaled

"""A trial: one model to train, and its identity."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from models import MIXERS, MODELS, model_name
from models.spec import NetworkSpec
from sweep.errors import UsageError, shown, unknown
from sweep.plugins import code_of
from tasks import TASK_NAMES, TASKS, Task

IDENTITY_VERSION = 1
"""Moves when the meaning of training changes, or a released default does; then every id changes (law 1)."""

DEFAULTS: dict[str, Any] = {
    "length": 128,
    "case_bias": 0,
    "norm_placement": "branch",
    "mix_norm": "layer",
    "mix_activation": "gelu",
    "hidden_norm": True,
    "feed_forward": "4x",
    "depth": 2,
    "width": 128,
    "heads": 4,
    "causal": False,
    "position_scale": 1.0,
    "init_scale": 1.0,
    "dropout": 0.0,
    "optimizer": "adam",
    "schedule": "linear",
    "clip_norm": 0.0,  # no clipping
    "learning_rate": 0.0002187,
    "weight_decay": 0.0,
    "batch_size": 32,
    "epochs": 32,
    "steps_per_epoch": 100,
    "seed": 0,
    "precision": "fp32",
    "eval_samples": 1024,
    "samples_per_case": 1000,
}
"""The NAP paper's values, for what a study leaves out. A released default never changes (law 1). Readout, vocabulary,
positions and causal have the task's default; parts of a model have the model's before these."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Every value that can change a trained model's result. Immutable; equal values are one trial.

    Values are as `sweep.values.Values` describes them. What a mixer without heads has no use for is None.

    Attributes:
        pairs, values: of `recall`, `pairs` of `mqar` as well; None for tasks without.
        eval_lengths: further lengths of evaluation sequences, ascending: "64,128"; None: that of the task alone.
        code: what a user's own mixer or task is, by content (`sweep.plugins`); None where both ship.
        id: 128 bits of a hash over the canonical form, in hexadecimal.
    """

    task: str
    readout: str
    length: int
    vocabulary: int
    case_bias: int
    mixer: str
    norm_placement: str
    mix_norm: str | None
    mix_activation: str | None
    hidden_norm: bool
    feed_forward: str
    positions: str
    depth: int
    width: int
    heads: int | None
    init_scale: float
    optimizer: str
    schedule: str
    clip_norm: float
    learning_rate: float
    weight_decay: float
    batch_size: int
    epochs: int
    steps_per_epoch: int
    seed: int
    precision: str
    eval_samples: int
    samples_per_case: int | None
    code: str | None
    pairs: int | None
    values: int | None
    eval_lengths: str | None
    causal: bool
    position_scale: float
    dropout: float
    id: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in FLOATS:
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in BOOLS:
            object.__setattr__(self, name, bool(getattr(self, name)))
        object.__setattr__(self, "id", identity(self.as_dict()))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "Trial":
        """The trial that a study's values stand for: names opened into parts, defaults filled in, couplings followed.

        Raises:
            UsageError: an unknown task, model or mixer, or values that do not go together.
        """
        resolved = {**DEFAULTS, **_task_parts(values), **_model_parts(values), **values}
        resolved.pop("model", None)
        resolved["task"] = TASK_NAMES[values["task"]]["task"]
        _follow_couplings(values, resolved)
        if not MIXERS[resolved["mixer"]].heads:
            resolved |= dict.fromkeys(HEADED)
        if resolved["positions"] not in SCALED_POSITIONS:
            resolved["position_scale"] = DEFAULTS["position_scale"]
        if not TASKS[resolved["task"]].cases:
            resolved["samples_per_case"] = None
        resolved |= _own_values(values, TASKS[resolved["task"]])
        resolved.setdefault("eval_lengths", None)
        resolved["code"] = code_of(resolved["mixer"], resolved["task"])
        trial = cls(**resolved)
        trial._check()
        return trial

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Trial":
        """The trial that a row of a store, or `as_dict`, describes; what an older store lacks is at its default."""
        values: dict[str, Any] = {name: row[name] if name not in LATER else row.get(name) for name in FIELDS}
        for name, default in DEFAULTS.items():
            if values[name] is None and name not in (*HEADED, "samples_per_case"):  # where None says something
                values[name] = default
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """The values by name."""
        return {name: getattr(self, name) for name in FIELDS}

    @property
    def shape(self) -> tuple:
        """What trials must share to train together: all values but those in `PER_MODEL`."""
        return tuple(getattr(self, name) for name in FIELDS if name not in PER_MODEL)

    @property
    def model(self) -> str:
        """The name of the model that the parts are, or the nearest one and what differs."""
        return model_name({part: getattr(self, part) for part in PARTS}, {part: DEFAULTS.get(part) for part in PARTS})

    @property
    def generator(self) -> Task:
        """The task, with this trial's values of its own."""
        task = TASKS[self.task]
        return task.having(**{name: getattr(self, name) for name in task.own})

    @property
    def eval_length(self) -> int:
        """Length of the evaluation's sequences: half or twice the training length, as the task has it."""
        return TASKS[self.task].eval_length(self.length)

    @property
    def judged_lengths(self) -> tuple[int, ...]:
        """Lengths of the sequences that it is evaluated on as a whole: the task's own first."""
        more = map(int, self.eval_lengths.split(",")) if self.eval_lengths else ()
        return (self.eval_length, *(length for length in more if length != self.eval_length))

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole training."""
        return self.epochs * self.steps_per_epoch

    @property
    def network(self) -> NetworkSpec:
        """The shape of the network."""
        task = self.generator
        return NetworkSpec(
            mixer=self.mixer,
            norm_placement=self.norm_placement,
            mix_norm=self.mix_norm or "none",
            mix_activation=self.mix_activation or "none",
            hidden_norm=self.hidden_norm,
            feed_forward=self.feed_forward,
            positions=self.positions,
            depth=self.depth,
            width=self.width,
            heads=self.heads or 1,
            length=self.length,
            vocabulary=self.vocabulary,
            readout=self.readout,
            classes=task.classes(self.length, self.vocabulary),
            positional_classes=task.answers_position,
            causal=self.causal,
            asked=task.asked(self.length),
            position_scale=self.position_scale,
        )

    @property
    def train_flops(self) -> float:
        """Floating-point operations of the whole training, matrix products only."""
        return self.network.train_flops(self.steps * self.batch_size)

    @property
    def cost(self) -> float:
        """What a trial's time goes with: `training_cost` and the like of its evaluations."""
        network = self.network
        judged = self.eval_samples * sum(map(network.forward_cost, self.judged_lengths))
        for length in {self.length, self.eval_length}:
            judged += len(TASKS[self.task].cases) * (self.samples_per_case or 0) * network.forward_cost(length)
        return self.training_cost + self.epochs * judged

    @property
    def training_cost(self) -> float:
        """What the time of a trial's steps goes with: a backward pass counts as two forward ones."""
        return 3 * self.network.forward_cost(self.length) * self.steps * self.batch_size

    def _sources(self, derived: str) -> str:
        if derived == "steps":
            return f"epochs = {self.epochs:,} and steps_per_epoch = {self.steps_per_epoch:,}"
        return f"length = {self.length:,}"

    def _check(self) -> None:
        task = self.generator
        try:
            for length in (self.length, *self.judged_lengths[1:]):
                task.check(length, self.vocabulary)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if self.readout not in task.readouts:
            raise UsageError(
                f"readout = {shown(self.readout)}: task {self.task} can be read as {' or '.join(task.readouts)}"
            )
        if self.case_bias and not task.has_bias:
            raise UsageError(f"case_bias = {self.case_bias}: task {self.task} has no cases to bias")
        if self.heads and self.width % self.heads:
            raise UsageError(
                f"width = {self.width}: {self.heads} heads do not divide it; use a multiple of {self.heads}"
            )
        self._check_mixer()
        longest = max(self.judged_lengths)
        if self.positions == "learned" and longest > self.length:
            raise UsageError(
                f'positions = "learned": {self.task} is evaluated at length {longest}, beyond the {self.length} '
                'positions that training learns; "sinusoidal", "rotary" or "none" have no end'
            )
        if task.answers_position and longest > self.length:
            raise UsageError(
                f"eval_lengths: the answers of {self.task} are positions, of which training knows {self.length}"
            )
        if self.steps_per_epoch < 1:
            raise UsageError(f"batch_size = {self.batch_size}: more than the samples of an epoch, so it has no step")
        for name, value in (("steps", self.steps), ("evaluation length", self.eval_length)):
            if value > MOST:
                raise UsageError(f"{name} = {value:,}: at most {MOST:,} (from {self._sources(name)})")

    def _check_mixer(self) -> None:
        entry = MIXERS[self.mixer]
        if self.causal and self.readout == "first_token":
            raise UsageError(
                f"causal = true: task {self.task} is read at its first token here, which sees nothing but itself; "
                'readout = "last_token" or "mean", where a task has them, sees the rest'
            )
        if self.causal and not entry.causal:
            raise UsageError(f"causal = true: mixer {self.mixer} cannot hide later tokens")
        if self.positions == "rotary" and not entry.rotary:
            able = ", ".join(name for name, each in MIXERS.items() if each.rotary)
            raise UsageError(
                f'positions = "rotary": mixer {self.mixer} has no queries and keys to turn; '
                f'it can be had with {able}; "learned" and "sinusoidal" positions go with every mixer'
            )
        if self.positions == "rotary" and (self.width // (self.heads or 1)) % 2:
            raise UsageError(
                f'positions = "rotary": it turns pairs of features, and width = {self.width} in {self.heads} heads '
                f"is {self.width // (self.heads or 1)} features each: an even number is needed"
            )


MOST = 2**31 - 1
"""Largest whole number that a store keeps."""

FIELDS = tuple(each.name for each in fields(Trial) if each.init)
"""Names of a trial's values."""

FLOATS = tuple(each.name for each in fields(Trial) if each.type is float)
"""Names of those that are real numbers: 1 and 1.0 are one learning rate."""

BOOLS = tuple(each.name for each in fields(Trial) if each.type is bool)
"""Names of those that are true or false."""

PER_MODEL = ("learning_rate", "seed", "weight_decay", "dropout", "init_scale", "case_bias")
"""Values that may differ inside a pack."""

INDEPENDENT = ("learning_rate", "seed", "weight_decay", "dropout", "init_scale")
"""Values on which no other depends, and which go together with every other."""

COUPLINGS = ("samples_per_epoch", "samples_per_class", "filler")
"""Values that a study may declare but a trial does not have: steps_per_epoch or length follows from them."""

LATER = ("code", "pairs", "values", "eval_lengths", "causal", "position_scale", "dropout")
"""Values that an older store does not have."""

STEP_VALUES = ("steps_per_epoch", "samples_per_epoch", "samples_per_class")
"""Values of which a study may say one."""

HEADED = ("heads", "mix_norm", "mix_activation")
"""Values that a mixer without heads has no use for."""

SCALED_POSITIONS = ("learned", "sinusoidal")
"""Positions that `position_scale` acts on."""

OWN = ("pairs", "values")
"""Values that some tasks alone have."""

PARTS = ("mixer", "norm_placement", "mix_norm", "mix_activation", "hidden_norm", "feed_forward", "optimizer",
         "schedule", "clip_norm")  # fmt: skip
"""Values that a model's name may stand for."""

_CANONICAL_DEFAULTS = {name: DEFAULTS[name] for name in FIELDS if name in DEFAULTS}


def identity(values: Mapping[str, Any]) -> str:
    """The id of the trial with these values: 32 hexadecimal digits.

    The canonical form is JSON with sorted keys, without values at their default, led by the identity's version.
    Numbers have the type of their field, so that 3e6 is 3000000 and true is not 1.
    """
    return _hash(_canonical(name, values[name]) for name in sorted(values))


def _hash(members: Iterable[str]) -> str:
    """The id of the canonical form that consists of these members; empty ones are left out."""
    canonical = f"sweep-trial/{IDENTITY_VERSION}:{{{','.join(filter(None, members))}}}"
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=2**14, typed=True)
def _canonical(name: str, value: Any) -> str:
    """A value as a member of the canonical form, empty where it is left out. Kept: a grid has few values, and many
    trials."""
    if value is None or (name in _CANONICAL_DEFAULTS and value == _CANONICAL_DEFAULTS[name]):
        return ""
    return f"{json.dumps(name)}:{json.dumps(value + 0.0 if isinstance(value, float) else value)}"  # −0.0 is 0.0


class Variants:
    """The trials that differ from one in `INDEPENDENT` values alone, of which nothing is to be resolved or checked: a
    large grid is expanded three times as fast with them."""

    def __init__(self, trial: Trial) -> None:
        self.model = trial.model
        self.values = trial.as_dict()
        self.members = {name: _canonical(name, self.values[name]) for name in sorted(self.values)}

    def id(self, values: Mapping[str, Any]) -> str:
        """The id of the one with these `values`, whose types are those of their fields."""
        return _hash({**self.members, **{name: _canonical(name, value) for name, value in values.items()}}.values())

    def trial(self, values: Mapping[str, Any]) -> Trial:
        """The one with these `values`."""
        made = object.__new__(Trial)
        for name, value in {**self.values, **values, "id": self.id(values)}.items():
            object.__setattr__(made, name, value)
        return made


def _own_values(values: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """What a task alone has, and None for what it has not. Raises UsageError for what another task has."""
    for name in OWN:
        if values.get(name) is not None and name not in task.own:
            raise UsageError(f"{name} = {shown(values[name])}: task {task.name} has none")
    return {name: task.own.get(name) if values.get(name) is None else values[name] for name in OWN}


def _model_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    name = values.get("model")
    if name is not None and name not in MODELS:
        raise UsageError(f"{unknown('model', name, MODELS)}")
    if name is None and "mixer" not in values:
        raise UsageError(f"no model: say model = NAME ({', '.join(MODELS)}) or mixer = NAME ({', '.join(MIXERS)})")
    if values.get("mixer", "softmax") not in MIXERS:
        raise UsageError(f"{unknown('mixer', values['mixer'], MIXERS)}")
    return MODELS[name] if name is not None else {}


def _task_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    name = values.get("task")
    if name is None:
        raise UsageError(f"no task: say task = NAME; there are {', '.join(TASK_NAMES)}")
    if name not in TASK_NAMES:
        raise UsageError(f"{unknown('task', name, TASK_NAMES)}")
    task = TASKS[TASK_NAMES[name]["task"]]
    return {
        "readout": task.readouts[0],
        "vocabulary": task.vocabulary,
        "positions": task.positions,
        "causal": task.causal,
        **TASK_NAMES[name],
    }


def _follow_couplings(values: Mapping[str, Any], resolved: dict[str, Any]) -> None:
    """Puts `steps_per_epoch` and `length` where a study declares what they follow from."""
    if "filler" in values:
        task = TASKS[resolved["task"]]
        if "length" in values:
            raise UsageError("filler and length say the same thing twice: keep one of them")
        own = {name: value for name, value in _own_values(values, task).items() if name in task.own}
        resolved["length"] = task.having(**own).length_of(values["filler"])
        if resolved["length"] is None:
            raise UsageError(f"filler = {values['filler']}: task {task.name} has none")
        del resolved["filler"]
    said = [name for name in STEP_VALUES if name in values]
    if len(said) > 1:
        raise UsageError(f"{' and '.join(said)} say the same thing twice: keep one of them")
    per_epoch, per_class = resolved.pop("samples_per_epoch", None), resolved.pop("samples_per_class", None)
    if per_epoch is not None:
        resolved["steps_per_epoch"] = per_epoch // resolved["batch_size"]
    if per_class is not None:
        resolved["steps_per_epoch"] = per_class * resolved["vocabulary"] // resolved["batch_size"]


def as_row(trial: Trial) -> dict[str, Any]:
    """A trial's columns in a store: its id, its values, and what follows from them."""
    return {"id": trial.id, **trial.as_dict(), "model": trial.model, "eval_length": trial.eval_length}

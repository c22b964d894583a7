"""The values of a trial that a study may set: names, types, bounds, and the defaults of those that have one for all tasks
and models. The defaults are the NAP paper's; a released one never changes (law 1)."""

from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from models.spec import ACTIVATIONS, FEED_FORWARDS, MIX_NORMS, NORM_PLACEMENTS, POSITIONS
from sweep.errors import UsageError, unknown
from tasks import READOUTS

OPTIMIZERS = ("adam",)
SCHEDULES = ("linear", "warmup_linear")
PRECISIONS = ("fp32", "fp64")

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Values(BaseModel):
    """What `[fixed]`, `[grid]` and `--set` may hold."""

    model_config = ConfigDict(extra="forbid", strict=True)

    task: str
    readout: Literal[tuple(READOUTS)]  # type: ignore[valid-type]  # default: the task's
    length: Count = 128
    vocabulary: Count  # default: the task's
    case_bias: int = 0
    model: str
    mixer: str  # default of this and of the other parts: the model's
    norm_placement: Literal[NORM_PLACEMENTS] = "branch"  # type: ignore[valid-type]
    mix_norm: Literal[MIX_NORMS] = "layer"  # type: ignore[valid-type]
    mix_activation: Literal[ACTIVATIONS] = "gelu"  # type: ignore[valid-type]
    hidden_norm: bool = True
    feed_forward: Literal[FEED_FORWARDS] = "4x"  # type: ignore[valid-type]
    positions: Literal[POSITIONS]  # type: ignore[valid-type]  # default: the task's
    depth: Count = 2
    width: Count = 128
    heads: Count = 4
    init_scale: Rate = 1.0
    optimizer: Literal[OPTIMIZERS] = "adam"  # type: ignore[valid-type]
    schedule: Literal[SCHEDULES] = "linear"  # type: ignore[valid-type]
    clip_norm: NotNegative = 0.0  # 0: no clipping
    learning_rate: Rate = 0.0002187
    weight_decay: NotNegative = 0.0
    batch_size: Count = 32
    epochs: Count = 32
    steps_per_epoch: Count = 100
    samples_per_epoch: Count  # a coupling: steps_per_epoch = samples_per_epoch // batch_size
    samples_per_class: Count  # a coupling: steps_per_epoch = samples_per_class · vocabulary // batch_size
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    precision: Literal[PRECISIONS] = "fp32"  # type: ignore[valid-type]
    eval_samples: Count = 1024
    samples_per_case: Annotated[int, Field(ge=0)] = 1000


COUPLINGS = ("samples_per_epoch", "samples_per_class")
"""Values that a study may declare but a trial does not have: steps_per_epoch follows from them."""

DEFAULTS: dict[str, Any] = {
    name: field.default for name, field in Values.model_fields.items() if not field.is_required()
}
"""Values that are the same for every task and model unless set."""

_INTEGERS = {name for name, field in Values.model_fields.items() if field.annotation is int}
_FLOATS = {name for name, field in Values.model_fields.items() if field.annotation is float}
_ADAPTERS: dict[str, TypeAdapter] = {}


def check_name(name: str, where: str) -> None:
    """Raises UsageError, with near matches, where there is no value of this name."""
    if name not in Values.model_fields:
        raise UsageError(f"{where}: {unknown('value', name, Values.model_fields)}")


def checked(name: str, value: Any, where: str) -> Any:
    """`value` as the type that `name` has, e.g. 0.001 for Decimal("1e-3").

    Raises:
        UsageError: a wrong type or a value out of bounds; names `where`, the value and what is allowed.
    """
    check_name(name, where)
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        value = int(value) if whole and name in _INTEGERS else float(value)
    elif name in _FLOATS and type(value) is int:
        value = float(value)
    if name not in _ADAPTERS:
        field = Values.model_fields[name]
        annotated = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        _ADAPTERS[name] = TypeAdapter(annotated, config=ConfigDict(strict=True))
    try:
        return _ADAPTERS[name].validate_python(value)
    except ValidationError as error:
        raise UsageError(f"{where}: {name} = {shown(value)}: {_expectation(name, error)}") from None


def shown(value: Any) -> str:
    """A value as one would write it in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal):
        return f"{float(value):g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _expectation(name: str, error: ValidationError) -> str:
    allowed = get_args(Values.model_fields[name].annotation)
    if allowed:
        return f"must be one of {', '.join(map(str, allowed))}"
    message = error.errors()[0]["msg"]
    return message[0].lower() + message[1:].replace("Input ", "")

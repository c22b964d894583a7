"""The values that a study may set: their names, types and bounds. Their defaults are in `sweep.trial`."""

from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from models.spec import ACTIVATIONS, FEED_FORWARDS, MIX_NORMS, NORM_PLACEMENTS, POSITIONS
from sweep.errors import UsageError, shown, unknown
from tasks import READOUTS

OPTIMIZERS = ("adam",)
SCHEDULES = ("linear", "warmup_linear")
PRECISIONS = ("fp32", "tf32", "bf16", "fp64")

Count = Annotated[int, Field(ge=1, lt=2**31)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Values(BaseModel):
    """What `[fixed]`, `[grid]` and `--set` may hold."""

    model_config = ConfigDict(extra="forbid", strict=True)

    task: str
    readout: Literal[tuple(READOUTS)]  # type: ignore[valid-type]
    length: Count
    vocabulary: Count
    case_bias: Annotated[int, Field(ge=-64, le=64)]
    pairs: Count
    values: Count
    filler: Annotated[int, Field(ge=0, lt=2**31)]  # a coupling: length = 2 · pairs + filler + 2
    model: str
    mixer: str
    norm_placement: Literal[NORM_PLACEMENTS]  # type: ignore[valid-type]
    mix_norm: Literal[MIX_NORMS]  # type: ignore[valid-type]
    mix_activation: Literal[ACTIVATIONS]  # type: ignore[valid-type]
    hidden_norm: bool
    feed_forward: Literal[FEED_FORWARDS]  # type: ignore[valid-type]
    positions: Literal[POSITIONS]  # type: ignore[valid-type]
    position_scale: Rate
    causal: bool
    depth: Count
    width: Count
    heads: Count
    init_scale: Rate
    optimizer: Literal[OPTIMIZERS]  # type: ignore[valid-type]
    schedule: Literal[SCHEDULES]  # type: ignore[valid-type]
    clip_norm: NotNegative
    learning_rate: Rate
    weight_decay: NotNegative
    dropout: Annotated[float, Field(ge=0, le=0.999, allow_inf_nan=False)]
    batch_size: Count
    epochs: Count
    steps_per_epoch: Count
    samples_per_epoch: Count  # a coupling: steps_per_epoch = samples_per_epoch // batch_size
    samples_per_class: Count  # a coupling: steps_per_epoch = samples_per_class · vocabulary // batch_size
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    precision: Literal[PRECISIONS]  # type: ignore[valid-type]
    eval_samples: Count
    eval_lengths: str  # a list of whole numbers; kept as "64,128"
    samples_per_case: Annotated[int, Field(ge=0, lt=2**31)]


WORDS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be text in quotes",
}

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
    if name == "eval_lengths":
        return _lengths(value, where)
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        value = int(value) if whole and name in _INTEGERS else float(value)
    elif name in _FLOATS and type(value) is int:
        value = float(value)
    if name not in _ADAPTERS:
        field = Values.model_fields[name]
        annotated: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        _ADAPTERS[name] = TypeAdapter(annotated, config=ConfigDict(strict=True))
    try:
        return _ADAPTERS[name].validate_python(value)
    except ValidationError as error:
        raise UsageError(f"{where}: {name} = {shown(value)}: {_expectation(name, error)}") from None


def _lengths(value: Any, where: str) -> str:
    """A list of lengths, or what a list was kept as: ascending, each once."""
    said = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    try:
        lengths = {int(each) for each in said if int(each) == Decimal(str(each).strip()) and 0 < int(each) < 2**31}
    except (ValueError, TypeError, ArithmeticError):
        lengths = set()
    if len(lengths) != len(said) or not lengths:
        raise UsageError(
            f"{where}: eval_lengths = {shown(value)}: must be a list of different lengths, as in [64, 128]"
        )
    return ",".join(map(str, sorted(lengths)))


def _expectation(name: str, error: ValidationError) -> str:
    allowed = get_args(Values.model_fields[name].annotation)
    if allowed:
        return f"must be {'one of ' * (len(allowed) > 1)}{', '.join(map(str, allowed))}"
    problem = error.errors()[0]
    if problem["type"] in WORDS:
        return WORDS[problem["type"]]
    return (
        problem["msg"]
        .replace("Input should be greater than or equal to", "must be at least")
        .replace("Input should be", "must be")
    )

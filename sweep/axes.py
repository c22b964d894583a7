"""Axes of a grid: lists, `{ base, from, to }`, `{ count }` and `{ from, to, step }`, computed in decimal.

In decimal, so that 0.3^5 is the very number that 0.00243 is, and both make one trial.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, InvalidOperation, localcontext
from typing import Any

from sweep.errors import UsageError, shown
from sweep.values import checked

MOST_VALUES = 2**40
MOST_EXPONENT = 5_000
MOST_DIGITS = 400
"""Decimal digits before or after the point; a 64-bit number has at most 324."""

FORMS = "a list, { base, from, to }, { count } or { from, to, step }"


class Steps(Sequence):
    """`count` values from `low` by `step`, computed when asked for, so that a long axis costs nothing to have.

    Args:
        convert: from a decimal to the axis's type.
    """

    def __init__(self, low: Decimal, step: Decimal, count: int, convert: Callable[[Decimal], Any]):
        self.low, self.step, self.size, self.convert = low, step, count, convert

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index):
        return self.convert(self.low + range(self.size)[index] * self.step)

    def __contains__(self, value: object) -> bool:
        index = (Decimal(str(value)) - self.low) / self.step
        return index == index.to_integral_value() and 0 <= index < self.size


def axis(name: str, form: Any, where: str) -> Sequence[Any]:
    """The values of axis `name`, in order, from what a study says.

    Raises:
        UsageError: an empty axis, a value twice, an unknown form, a wrong type.
    """
    where = f"{where}.{name}"
    if isinstance(form, dict):
        values = _from_table(name, form, where)
    elif isinstance(form, list):
        values = [checked(name, value, where) for value in form]
    else:
        values = [checked(name, form, where)]
    if not values:
        raise UsageError(f"{where} is empty: an axis needs at least one value")
    if isinstance(values, list):
        seen = set()
        for value in values:
            if value in seen:
                raise UsageError(f"{where} has {shown(value)} twice")
            seen.add(value)
    return values


def _from_table(name: str, form: dict[str, Any], where: str) -> Sequence[Any]:
    keys = set(form)
    for key, value in form.items():
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or not Decimal(value).is_finite():
            raise UsageError(f"{where}: {key} = {shown(value)} should be a finite number")
    if keys in ({"count"}, {"count", "from"}):
        count, start = _integer(form, "count", where), _integer(form, "from", where, 0)
        _check_length(count, where)
        checked(name, start, where)
        checked(name, start + max(count - 1, 0), where)
        return range(start, start + count)
    if keys == {"base", "from", "to"}:
        start, stop = _integer(form, "from", where), _integer(form, "to", where)
        base = Decimal(form["base"])
        if base <= 0:
            raise UsageError(f"{where}: base = {shown(base)} should be positive")
        for key, exponent in (("from", start), ("to", stop)):
            if abs(exponent) > MOST_EXPONENT:
                raise UsageError(f"{where}: {key} = {shown(exponent)}: an exponent is at most {MOST_EXPONENT}")
        direction = 1 if stop >= start else -1
        return [checked(name, power(base, exponent), where) for exponent in range(start, stop + direction, direction)]
    if keys == {"from", "to", "step"}:
        low, high, step = Decimal(form["from"]), Decimal(form["to"]), Decimal(form["step"])
        if step == 0:
            raise UsageError(f"{where}: step = 0 never gets from {shown(low)} to {shown(high)}")
        count = int((high - low) / step) + 1 if (high - low) / step >= 0 else 0
        _check_length(count, where)
        steps = Steps(low, step, count, lambda value: checked(name, value, where))
        ends = [steps[index] for index in (0, 1, -2, -1)] if count > 1 else list(steps)
        if count > 1 and (ends[0] == ends[1] or ends[2] == ends[3]):
            raise UsageError(f"{where}: step = {shown(step)} is too small: two neighbours are the same number")
        return steps
    raise UsageError(f"{where} = {{ {', '.join(sorted(keys))} }}: an axis is {FORMS}")


def _check_length(count: int, where: str) -> None:
    if count > MOST_VALUES:
        raise UsageError(f"{where} has {shown(count)} values: an axis has at most {MOST_VALUES:,}")


def decimal(text: str) -> Decimal:
    """A number as written.

    Raises:
        InvalidOperation: `text` is no number.
        UsageError: a number that no 64-bit number is near to.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        if re.fullmatch(r"[-+.0-9_eE]+", text) and any(map(str.isdigit, text)):
            raise UsageError(f"{shown(text)}: too large or too small for a number") from None
        raise
    if number.is_finite() and number and abs(number.adjusted()) > MOST_DIGITS:
        raise UsageError(f"{shown(text)}: too large or too small for a number")
    return number


def _integer(form: dict[str, Any], key: str, where: str, default: int = 0) -> int:
    value = form.get(key, default)
    if value != int(value):
        raise UsageError(f"{where}: {key} = {shown(value)} should be a whole number")
    return int(value)


def power(base: Decimal, exponent: int) -> Decimal:
    """base^exponent, exact where it has at most 60 digits."""
    with localcontext(Context(prec=60)):
        return (base**exponent).normalize() if exponent else Decimal(1)

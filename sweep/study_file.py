"""The form of a study's TOML file: reading it, replacing parts of it from the command line, saying what is wrong with
it."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import InvalidOperation
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sweep.axes import decimal
from sweep.errors import UsageError, unknown
from sweep.trial import DEFAULTS, STEP_VALUES
from sweep.values import check_name


class Figure(BaseModel):
    """What a report draws: the axes of its heatmaps."""

    model_config = ConfigDict(extra="forbid", strict=True)

    x: str | None = None
    y: str | None = None


class StudyFile(BaseModel):
    """The form of a study's TOML file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: str
    description: str = ""
    task: str | None = None
    plugins: list[str] = Field(default_factory=list)
    fixed: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Any] | list[dict[str, Any]]
    figure: Figure = Field(default_factory=Figure)


def parsed(name: str, text: str) -> StudyFile:
    """A study's file, its form checked; what its values mean is not yet.

    Raises:
        UsageError: not TOML, an unknown key, a missing or wrong part; with `name` and the place.
    """
    try:
        return StudyFile.model_validate(tomllib.loads(text, parse_float=decimal))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: {_toml_problem(text, str(error))}") from None
    except RecursionError:
        raise UsageError(f"{name}: not valid TOML: brackets nested too deeply") from None
    except ValidationError as error:
        raise UsageError(f"{name}: {_first_problem(error)}") from None
    except ValueError:  # Python reads no whole number of more than 4,300 digits
        raise UsageError(f"{name}: a number with too many digits") from None


def _toml_problem(text: str, message: str) -> str:
    """A syntax error with its line; a key that is there twice, by name."""
    found = re.search(r"line (\d+)", message)
    line = int(found[1]) if found else max(len(text.rstrip().splitlines()), 1)
    if not message.startswith("Cannot overwrite"):
        return f"not valid TOML: {message.replace('(at end of document)', f'(at the end, after line {line})')}"
    key = text.splitlines()[line - 1].partition("=")[0].strip(" []")
    return f"not valid TOML: line {line}: {key} is set twice"


def _first_problem(error: ValidationError) -> str:
    """The first of pydantic's errors, said as one would to a colleague."""
    problem = error.errors()[0]
    path = [str(part) for part in problem["loc"]]
    if problem["type"] == "extra_forbidden":
        known = Figure.model_fields if path[:-1] == ["figure"] else StudyFile.model_fields
        message = unknown("key", path[-1], known)
        if path[-1] in DEFAULTS and len(path) == 1:
            message += f"; values like {path[-1]} stand in [fixed] or [grid]"
        return message
    if problem["type"] == "missing":
        return f"{path[0]} is missing: a study has a title, a task and a [grid]"
    if path[0] == "grid":
        return "grid should be a table of axes, [grid], or several, [[grid]]"
    return f"{'.'.join(path)}: {problem['msg'][0].lower()}{problem['msg'][1:].replace('Input ', '')}"


LISTS = ("eval_lengths",)
"""Values that are lists themselves: with --set a list is one value, no axis."""


def with_sets(
    fixed: Mapping[str, Any], blocks: list[dict[str, Any]], sets: Sequence[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Fixed values and blocks after --set.

    A value that is an axis somewhere, or becomes one, is that axis in every block; else it is fixed. What says the same
    in another way (samples_per_epoch for steps_per_epoch) goes.
    """
    fixed = dict(fixed)
    names: set[str] = set()
    for text in sets:
        name, equals, said = text.partition("=")
        name = name.strip()
        if not equals or not name or not said.strip():
            raise UsageError(f"--set {text}: write NAME=VALUE, NAME=VALUE,VALUE or NAME={{count=3}}")
        check_name(name, "--set")
        if name in names:
            raise UsageError(f"--set {text}: {name} is set twice")
        names.add(name)
        value = _set_value(text, said)
        replaced = (name, *(rival for rival in STEP_VALUES if name in STEP_VALUES))
        in_grid = (isinstance(value, list | dict) and name not in LISTS) or any(name in block for block in blocks)
        for holder in (fixed, *blocks):
            for key in replaced:
                if key != name or not in_grid:
                    holder.pop(key, None)
        if in_grid:
            fixed.pop(name, None)
            for block in blocks:
                block[name] = value
        else:
            fixed[name] = value
    return fixed, blocks


def _set_value(given: str, text: str) -> Any:
    """What --set gives: a TOML value, several separated by commas, or a bare word."""
    with suppress(InvalidOperation):  # first, since .001 is no number in TOML
        return decimal(text.strip())
    for candidate in (text, f"[{text}]"):
        with suppress(tomllib.TOMLDecodeError, RecursionError):
            if candidate == text or "," in text:
                table = tomllib.loads(f"value = {candidate}", parse_float=decimal)
                if set(table) == {"value"}:
                    return table["value"]
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise UsageError(f"--set {given}: an empty value between commas")
    return [_set_value(given, word) for word in words] if len(words) > 1 else words[0]

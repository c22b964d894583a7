"""A study: a TOML file that names a task, fixed values and a grid, and expands lazily into trials."""

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import InvalidOperation
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sweep.axes import axis, decimal
from sweep.boxes import Box, union_size
from sweep.errors import UsageError, shown, unknown
from sweep.trial import DEFAULTS, FIELDS, PARTS, Trial
from sweep.values import COUPLINGS, STEP_VALUES, check_name, checked

STUDIES = Path(__file__).parent / "studies"

NAMING = ("task", "readout", "positions", "model", *PARTS, "heads", "samples_per_case")
"""Values that can make two points of a grid one trial: names of parts, parts, and what a model may have no use for."""

COUPLED = ("batch_size", "vocabulary", "steps_per_epoch", *COUPLINGS)
"""Values that can do so too where a study declares a coupling."""

STRUCTURE = (*NAMING, *COUPLED, "length", "case_bias", "width")
"""Values that may not go together. The others never make a trial impossible."""

MOST_CHECKED = 5_000
"""Combinations of structure that are checked when a study is loaded; the rest are when they are expanded."""


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
    fixed: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Any] | list[dict[str, Any]]
    figure: Figure = Field(default_factory=Figure)


@dataclass(frozen=True)
class Grid:
    """The Cartesian product of some axes: name → values, in the order in which the study has them."""

    axes: Mapping[str, Sequence[Any]]

    @property
    def size(self) -> int:
        """How many points there are."""
        return prod(map(len, self.axes.values()))

    def points(self) -> Iterator[dict[str, Any]]:
        """The values of every point, the last axis fastest. Lazy, also where an axis is long."""
        names = list(self.axes)
        for values in _product(list(self.axes.values())):
            yield dict(zip(names, values, strict=True))


class Study:
    """A study, checked.

    Attributes:
        name: "quickstart", "paper/mode-width", or the file's stem.
        given: what loads it again: its name, or the path of its file.
        title, description: as in the file.
        text: the TOML as read.
        sets: what the command line replaced.
        fixed: values that all trials have.
        grids: the grid's blocks; the study is their union.
        x, y: axes of the heatmaps, or None.
    """

    def __init__(self, name: str, text: str, sets: Sequence[str] = (), given: str | None = None):
        self.name, self.text, self.sets, self.given = name, text, tuple(sets), given or name
        file = _parsed(name, text)
        self.title, self.description = file.title, file.description
        blocks = file.grid if isinstance(file.grid, list) else [file.grid]
        fixed, blocks = _with_sets(file.fixed, [dict(block) for block in blocks], sets)
        if file.task is not None and "task" not in fixed and not any("task" in block for block in blocks):
            fixed["task"] = file.task
        elif file.task is not None and not any(text.partition("=")[0].strip() == "task" for text in sets):
            raise UsageError(f"{name}: task is set at the top and in [fixed] or [grid]: keep one of them")
        self.fixed = {key: checked(key, value, f"{name}: fixed") for key, value in fixed.items()}
        self.grids = [self._grid(block) for block in blocks]
        if not self.grids:
            raise UsageError(f"{name}: [[grid]] is empty: a study needs at least one axis")
        self.x, self.y = self._figure_axes(file.figure)
        self._check_structure()

    @classmethod
    def load(cls, name_or_path: str | Path, sets: Sequence[str] = ()) -> "Study":
        """The study of a name (see `study_names`) or of a TOML file.

        Args:
            name_or_path: "paper/mode-width" or "my/study.toml".
            sets: replacements like "width=8,16" or "seed={count=2}".

        Raises:
            UsageError: no such study, or one that is not right.
        """
        given = str(name_or_path)
        shipped = STUDIES / f"{given}.toml"
        if given in study_names():
            return cls(given, shipped.read_text(encoding="utf-8"), sets)
        path = Path(given)
        try:
            if path.is_dir():
                raise UsageError(f"cannot read study {given}: it is a folder")
            if path.is_file():
                return cls(path.stem, path.read_text(encoding="utf-8-sig"), sets, given)
        except OSError as error:
            raise UsageError(f"cannot read study {shown(given)}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"cannot read study {given}: it is not UTF-8 text") from None
        if path.suffix == ".toml":
            raise UsageError(f"cannot read study {given}: no such file")
        raise UsageError(f"{unknown('study', given, study_names())} (or give the path of a .toml file)")

    @cached_property
    def size(self) -> int:
        """How many different trials there are; exact, and computed without expanding the axes that never collide."""
        return sum(union_size(boxes) for boxes in self._boxes.values())

    def __len__(self) -> int:
        """`size`, where it is one that Python's `len` can say (below 2^63)."""
        return self.size

    @property
    def points_count(self) -> int:
        """How many points the blocks' products have, those included that make one trial."""
        return sum(grid.size for grid in self.grids)

    def points(self) -> Iterator[tuple[dict[str, Any], Trial]]:
        """Every point of the grid, lazily: the values of the axes, and the trial that they make.

        Several points can make one trial: BERT with MTE's parts is MTE. What blocks have alike comes once.
        """
        names = self.axis_names
        seen: set[tuple] | None = set() if len(self.grids) > 1 else None
        for grid in self.grids:
            for point in grid.points():
                values = {**self.fixed, **point}
                try:
                    trial = Trial.from_values(values)
                except UsageError as error:
                    raise UsageError(f"{self.name}: {error}") from None
                label = {name: values[name] if name in values else getattr(trial, name, None) for name in names}
                if seen is not None:
                    if (key := tuple(label.values())) in seen:
                        continue
                    seen.add(key)
                yield {"model": trial.model, "seed": trial.seed, **label}, trial

    def trials(self) -> Iterator[Trial]:
        """Every trial once, lazily."""
        if self.points_count == self.size:
            yield from (trial for _, trial in self.points())
            return
        seen: set[str] = set()
        for _, trial in self.points():
            if trial.id not in seen:
                seen.add(trial.id)
                yield trial

    def __contains__(self, trial: Trial) -> bool:
        """Whether the study has this trial; expands nothing."""
        boxes = self._boxes.get(self._key(trial), ())
        return any(all(getattr(trial, name) in values for name, values in box.items()) for box in boxes)

    @property
    def axis_names(self) -> list[str]:
        """Names of the axes, in the order in which the study has them."""
        return list(dict.fromkeys(name for grid in self.grids for name in grid.axes))

    @property
    def swept(self) -> list[str]:
        """Axes along which the study has more than one value."""
        values: dict[str, set] = {}
        for grid in self.grids:
            for name, axis_values in {**{k: [v] for k, v in self.fixed.items()}, **grid.axes}.items():
                values.setdefault(name, set()).update(itertools.islice(axis_values, 2))
        return [name for name in self.axis_names if len(values[name]) > 1]

    def _grid(self, block: Mapping[str, Any]) -> Grid:
        for name in block:
            check_name(name, f"{self.name}: grid")
            if name in self.fixed:
                raise UsageError(f"{self.name}: {name} is in [fixed] and in [grid]: keep one of them")
        if not block:
            raise UsageError(f"{self.name}: [grid] is empty: a study needs at least one axis")
        return Grid({name: axis(name, form, f"{self.name}: grid") for name, form in block.items()})

    def _figure_axes(self, figure: Figure) -> tuple[str | None, str | None]:
        for key, name in (("x", figure.x), ("y", figure.y)):
            if name is not None and name not in self.axis_names:
                raise UsageError(f"{self.name}: figure.{key}: {unknown('axis', name, self.axis_names)}")
            if name in ("model", "seed"):
                raise UsageError(
                    f"{self.name}: figure.{key} = {name}: there is a heatmap a model, and a cell has all seeds"
                )
        if figure.x is not None and figure.x == figure.y:
            raise UsageError(f"{self.name}: figure.x and figure.y are both {figure.x}: give two different axes")
        free = [name for name in self.swept if name not in ("model", "mixer", "seed", figure.x, figure.y)]
        y = figure.y or ("learning_rate" if "learning_rate" in free else None)
        x = figure.x or next((name for name in free if name != y), None)
        return x, y

    def _combinations(self, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Per block, every combination of the axes in `names`, and the first value of each other axis."""
        for grid in self.grids:
            some = {name: values for name, values in grid.axes.items() if name in names}
            first = {name: values[0] for name, values in grid.axes.items() if name not in names}
            for point in Grid(some).points():
                yield {**self.fixed, **first, **point}, {k: v for k, v in grid.axes.items() if k not in names}

    def _check_structure(self) -> None:
        for values, _ in itertools.islice(self._combinations(STRUCTURE), MOST_CHECKED):
            try:
                Trial.from_values(values)
            except UsageError as error:
                raise UsageError(f"{self.name}: {error}") from None

    @cached_property
    def _boxes(self) -> dict[tuple, list[Box]]:
        """For each combination of what can collide, the products of the other axes that go with it."""
        boxes: dict[tuple, list[Box]] = {}
        for values, others in self._combinations(self._colliding):
            trial = Trial.from_values(values)
            free = {name: [getattr(trial, name)] for name in FIELDS if name not in self._colliding}
            boxes.setdefault(self._key(trial), []).append({**free, **others})
        return boxes

    @cached_property
    def _colliding(self) -> tuple[str, ...]:
        """Names of the values by which different points can be one trial."""
        couples = any(name in {**self.fixed, **grid.axes} for name in COUPLINGS for grid in self.grids)
        return (*NAMING, *COUPLED) if couples else NAMING

    def _key(self, trial: Trial) -> tuple:
        return tuple(getattr(trial, name) for name in FIELDS if name in self._colliding)


def study_names() -> list[str]:
    """Names of the studies that ship."""
    return sorted(str(path.relative_to(STUDIES).with_suffix("")) for path in STUDIES.rglob("*.toml"))


def _product(axes: list[Sequence[Any]]) -> Iterator[tuple]:
    """`itertools.product`, which would first copy every axis."""
    if not axes:
        yield ()
        return
    for head in axes[0]:
        for tail in _product(axes[1:]):
            yield (head, *tail)


def _parsed(name: str, text: str) -> StudyFile:
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


def _with_sets(
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
        in_grid = isinstance(value, list | dict) or any(name in block for block in blocks)
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

"""Quantities as people say them."""

from typing import Any


def duration(seconds: float) -> str:
    """Seconds as people say them: 42 s, 3 min 20 s, 5 h 10 min, 2 days 4 h."""
    for unit, size, smaller, smaller_size in (
        ("days", 86400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= size:
            whole = int(seconds // size)
            said = "day" if unit == "days" and whole == 1 else unit
            return f"{whole} {said} {int(seconds % size // smaller_size)} {smaller}"
    return f"{seconds:.0f} s" if seconds >= 1 else "less than a second"


def plural(name: str, count: int) -> str:
    """An axis's name as one counts it: "learning rates", "batch sizes", "seed"."""
    words = name.replace("_", " ")
    if count == 1 or words.endswith("s"):
        return words
    if words.endswith("y") and words[-2:-1] not in "aeiou":
        return words[:-1] + "ies"
    return words + "s"


def counted(count: int, noun: str) -> str:
    """A number and what it counts: "1 trial", "2,400 trials"."""
    return f"{count:,} {plural(noun, count)}"


def format_value(value: Any) -> str:
    """A value of an axis as people write it: 64, 0.0081, 2.2e-05, nap."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)

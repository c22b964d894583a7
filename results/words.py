"""Quantities as people say them."""


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

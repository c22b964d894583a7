"""Where what is built or measured once a machine is kept. Loads no torch."""

import os
from pathlib import Path


def user_cache() -> Path:
    """The project's folder in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweep"

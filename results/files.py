"""Saving a file so that a reader sees all of it or none, whatever is killed and whenever."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

TEMPORARY_SUFFIX = ".tmp"


def save_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Creates or replaces `path` with what `write(file)` writes, in one step and durably.

    The bytes go to a dot-prefixed temporary file in the same folder, which is synced and then renamed. When `write`
    raises, `path` is as it was and the temporary file is gone; a kill can leave the temporary file behind.

    Raises: OSError (no space, read-only, no such folder), and whatever `write` raises.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}{TEMPORARY_SUFFIX}")
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def save_text(path: Path, text: str) -> None:
    """Saves `text` atomically, as UTF-8."""
    save_atomically(path, lambda file: file.write(text.encode()))


def is_temporary(name: str) -> bool:
    """Whether a file of this name is a leftover of `save_atomically`."""
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


def _sync_folder(folder: Path) -> None:
    """Makes a rename in `folder` survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)

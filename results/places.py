"""Where a store's shards are: in a folder, or under a prefix of a bucket."""

import io
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from uuid import uuid4

from results import StoreError, StoreUnreachable
from results.files import is_temporary, save_atomically

BUCKETS = ("s3://", "gs://")
"""What addresses of buckets begin with."""

MOST_FETCHED = 2**28
"""Bytes of a bucket's shards that are kept to be read again for other columns."""


class Place(Protocol):
    """Files in two folders, `trials` and `curves`. Methods raise OSError where not said otherwise."""

    def names(self, kind: str) -> list[str]:
        """Names of a folder's files; none where it is not there yet. Raises StoreError where it cannot be listed."""

    def source(self, kind: str, name: str) -> Any:
        """What Parquet reads from. Raises FileNotFoundError; StoreError where it cannot be reached."""

    def save(self, kind: str, name: str, write: Callable[[BinaryIO], object]) -> None:
        """Creates a file with what `write` writes, so that it is seen whole or not at all."""

    def delete(self, kind: str, name: str) -> None:
        """Deletes a file, if it is there."""

    def exists(self, kind: str, name: str) -> bool:
        """Whether a file is there."""

    def modified(self, kind: str, name: str) -> float:
        """When a file was written, in seconds since the epoch; now for one that is gone."""

    def check_writable(self) -> None:
        """Raises StoreError, in one line, where nothing can be written. Leaves no trace."""

    def is_leftover(self, name: str) -> bool:
        """Whether a file is what a kill left of a save."""


def place_of(path: str | Path) -> Place:
    """The place that a path or an address means."""
    return Bucket(str(path)) if str(path).startswith(BUCKETS) else Folder(Path(path))


class Folder:
    """A folder. It appears with the first save."""

    def __init__(self, path: Path):
        self.path = path

    def names(self, kind: str) -> list[str]:
        try:
            return os.listdir(self.path / kind)
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise StoreError(f"the store {self.path} is not a folder") from error
        except OSError as error:
            raise StoreError(f"cannot read the store {self.path}: {error.strerror or error}") from error

    def source(self, kind: str, name: str) -> Any:
        return self.path / kind / name

    def save(self, kind: str, name: str, write: Callable[[BinaryIO], object]) -> None:
        (self.path / kind).mkdir(parents=True, exist_ok=True)
        save_atomically(self.path / kind / name, write)

    def delete(self, kind: str, name: str) -> None:
        (self.path / kind / name).unlink(missing_ok=True)

    def exists(self, kind: str, name: str) -> bool:
        return (self.path / kind / name).exists()

    def modified(self, kind: str, name: str) -> float:
        try:
            return (self.path / kind / name).stat().st_mtime
        except FileNotFoundError:
            return time.time()

    def check_writable(self) -> None:
        try:
            for kind in ("trials", "curves"):
                folder = self.path / kind
                while not os.path.lexists(folder):
                    folder = folder.parent
                if not folder.is_dir():
                    raise StoreError(f"cannot write to the store {self.path}: {folder} is not a folder")
                with tempfile.TemporaryFile(dir=folder) as file:
                    file.write(b"sweep")
        except OSError as error:
            raise StoreError(f"cannot write to the store {self.path}: {error.strerror or error}") from error

    def is_leftover(self, name: str) -> bool:
        return is_temporary(name)


class Bucket:
    """A prefix of a bucket, by pyarrow's file systems: s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.

    Credentials and region are found as the cloud's own tools find them. An object is seen once its upload has ended,
    and then whole.
    """

    def __init__(self, address: str):
        self.address = address
        self._opened: tuple[Any, str] | None = None
        self._fetched: dict[tuple[str, str], Any] = {}

    def _files(self) -> tuple[Any, str]:
        """The file system and the path in it, opened when they are first needed."""
        if self._opened is None:
            from pyarrow import fs

            try:
                self._opened = fs.FileSystem.from_uri(self.address)
            except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
                raise StoreError(f"cannot use the store {self.address}: {_first_line(error)}") from error
        return self._opened

    def _path(self, kind: str, name: str = "") -> str:
        return "/".join(part for part in (self._files()[1].rstrip("/"), kind, name) if part)

    def names(self, kind: str) -> list[str]:
        from pyarrow import fs

        files, _ = self._files()
        try:
            found = files.get_file_info(fs.FileSelector(self._path(kind), allow_not_found=True))
        except OSError as error:
            raise StoreUnreachable(f"cannot read the store {self.address}: {_first_line(error)}") from error
        return [each.base_name for each in found if each.is_file]

    def source(self, kind: str, name: str) -> Any:
        from pyarrow import BufferReader

        try:  # whole, so that what the network does is not taken for a damaged file; once, as shards do not change
            if (kind, name) not in self._fetched:
                with self._files()[0].open_input_file(self._path(kind, name)) as file:
                    self._keep(kind, name, file.read_buffer())
            return BufferReader(self._fetched[kind, name])
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreUnreachable(f"cannot read the store {self.address}: {_first_line(error)}") from error

    def _keep(self, kind: str, name: str, content: Any) -> None:
        """Keeps what was fetched, up to `MOST_FETCHED` bytes of it."""
        if sum(each.size for each in self._fetched.values()) + content.size > MOST_FETCHED:
            self._fetched.clear()
        self._fetched[kind, name] = content

    def save(self, kind: str, name: str, write: Callable[[BinaryIO], object]) -> None:
        buffer = io.BytesIO()
        write(buffer)
        self._put(self._path(kind, name), buffer.getbuffer())

    def _put(self, path: str, content: Any) -> None:
        with self._files()[0].open_output_stream(path, buffer_size=0) as stream:
            stream.write(content)

    def delete(self, kind: str, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files()[0].delete_file(self._path(kind, name))

    def exists(self, kind: str, name: str) -> bool:
        return bool(self._files()[0].get_file_info(self._path(kind, name)).is_file)

    def modified(self, kind: str, name: str) -> float:
        info = self._files()[0].get_file_info(self._path(kind, name))
        return info.mtime.timestamp() if info.is_file and info.mtime else time.time()

    def check_writable(self) -> None:
        path = self._path("trials", f".check-{uuid4().hex}")
        try:
            self._put(path, b"sweep")
            self._files()[0].delete_file(path)
        except OSError as error:
            raise StoreUnreachable(f"cannot write to the store {self.address}: {_first_line(error)}") from error

    def is_leftover(self, name: str) -> bool:
        return name.startswith(".check-")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

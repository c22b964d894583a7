"""Saving a file: a reader sees the old one or the new one, and never a part."""

from threading import Event, Thread

import pytest

from results.files import is_temporary, save_atomically, save_text

SIZE = 2_000_000


def test_a_reader_never_sees_half_a_file(tmp_path):
    path, stop, seen = tmp_path / "file", Event(), set()
    save_text(path, "0" * SIZE)

    def read() -> None:
        while not stop.is_set():
            content = path.read_bytes()
            seen.add((len(content), content[:1] == content[-1:]))

    reader = Thread(target=read)
    reader.start()
    for number in range(40):
        save_text(path, str(number % 10) * SIZE)
    stop.set()
    reader.join()
    assert seen == {(SIZE, True)}
    assert list(tmp_path.iterdir()) == [path]


def test_when_writing_fails_the_old_file_stays_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    save_text(path, "old")

    def write(file) -> None:
        file.write(b"half of the ne")
        assert [is_temporary(other.name) for other in tmp_path.iterdir() if other != path] == [True]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        save_atomically(path, write)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_utf_8(tmp_path):
    save_text(tmp_path / "file", "é")
    assert (tmp_path / "file").read_bytes() == b"\xc3\xa9"

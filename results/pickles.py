"""Reading a pickle that a stranger made: containers, text, numbers and NumPy arrays of numbers, and nothing that runs.

`pickle.load` imports and calls whatever a file names. Here a file may name the few things in `_ADMITTED`, and even for
those it gets stand-ins, which check what they are handed: neither NumPy's own unpickling nor any other code sees a
file's claims.
"""

import io
import math
import pickle
import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

MOST_AXES = 8
"""Of an array."""


class NotPlain(ValueError):
    """A pickle that is broken, or that holds more than plain data. The message says what, in one line."""


def read_plain(data: bytes) -> Any:
    """What a pickle of protocol 0 to 4 holds. Text that Python 2 wrote is read as Latin-1.

    NumPy's numbers become Python's, and its arrays become lists of lists. Takes some microseconds an object.

    Raises:
        NotPlain: it names something else than plain data, or is broken or cut off. Nothing of it has run.
    """
    try:
        return _PlainUnpickler(io.BytesIO(data), encoding="latin1").load()
    except NotPlain:
        raise
    except Exception as error:  # a broken pickle can raise almost anything
        raise NotPlain(f"it is no whole pickle ({type(error).__name__})") from error


_LEFT_OUT = (pickle.BYTEARRAY8, pickle.NEXT_BUFFER, pickle.EXT1, pickle.EXT2, pickle.EXT4)
"""Operations that plain data do without: the first believes a claimed size, the last take what is named elsewhere."""


class _PlainUnpickler(pickle._Unpickler):  # type: ignore[misc]
    """The unpickler in Python, since that in C lets a few bytes claim any amount of memory: it keeps what a file
    numbers in an array that is as long as the highest number. This one reads from a BytesIO, which has what it has."""

    dispatch: ClassVar = {
        code: load for code, load in pickle._Unpickler.dispatch.items() if bytes([code]) not in _LEFT_OUT
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise NotPlain(f"it names {_shown(f'{module}.{name}')}, which is no plain data")
        return _ADMITTED[module, name]


class _Standin:
    """What a file gets for a name: it can be called as `make` is, and nothing can be set on it."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[..., Any]):
        self.make = make

    def __call__(self, *arguments: Any) -> Any:
        return self.make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise NotPlain("it changes what it names")


class _Kind:
    """For a numpy.dtype: numbers and booleans of up to 8 bytes."""

    __slots__ = ("dtype",)

    def __init__(self, code: str, *_: Any):
        if not re.fullmatch(r"b1|[iu][1248]|f[248]", code):
            raise NotPlain(f"it has NumPy data of type {_shown(code)}, which are no plain numbers")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        """Only the order of bytes; structure, size and flags would be others' than a number's."""
        _version, order, *rest = state
        if rest != [None, None, None, -1, -1, 0]:
            raise NotPlain("it has NumPy data of a type that is no plain number")
        self.dtype = self.dtype.newbyteorder(">" if order == ">" else "<")

    def numbers(self, raw: Any) -> np.ndarray:
        """The numbers in `raw`, in a row. Raises where there is not a whole number of them."""
        raw = raw.encode("latin1") if isinstance(raw, str) else raw
        return np.frombuffer(raw, self.dtype) if len(raw) else np.empty(0, self.dtype)


class _Array(list):
    """For a numpy.ndarray: lists of lists, filled by `__setstate__`, which is where a pickle has an array's numbers."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, raw = state
        if not isinstance(kind, _Kind) or not all(isinstance(size, int) for size in shape):
            raise NotPlain("it has an array of another make than NumPy's")
        numbers = kind.numbers(raw)
        whole = 1 <= len(shape) <= MOST_AXES and all(size >= 1 for size in shape) and math.prod(shape) == len(numbers)
        if not whole and shape != (0,):
            raise NotPlain(f"it has an array of {len(numbers)} numbers that claims the shape {shape}")
        self[:] = numbers.reshape(shape, order="F" if fortran else "C").tolist()


def _number(kind: Any, raw: Any) -> Any:
    """For numpy.core.multiarray.scalar."""
    if not isinstance(kind, _Kind):
        raise NotPlain("it has a number of another make than NumPy's")
    return kind.numbers(raw).item()


def _encoded(text: str, encoding: str) -> bytes:
    """For _codecs.encode, with which Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise NotPlain(f"it has bytes as {_shown(encoding)}")
    return text.encode("latin1")


def _unmade(*_: Any) -> Any:
    raise NotPlain("it makes an array by its shape alone")


def _shown(text: str) -> str:
    """What a file says, made harmless and short enough for a line."""
    text = ascii(text)[1:-1]
    return text if len(text) <= 80 else f"{text[:77]}..."


_ADMITTED = {
    (module, name): _Standin(make)
    for modules, name, make in (
        (("numpy",), "dtype", _Kind),
        (("numpy",), "ndarray", _unmade),
        (("numpy.core.multiarray", "numpy._core.multiarray"), "_reconstruct", lambda *_: _Array()),
        (("numpy.core.multiarray", "numpy._core.multiarray"), "scalar", _number),
        (("_codecs",), "encode", _encoded),
        (("builtins", "__builtin__"), "bytes", lambda: b""),
        (("builtins", "__builtin__"), "set", set),
        (("builtins", "__builtin__"), "frozenset", frozenset),
    )
    for module in modules
}  # fmt: skip
"""What a file may name, and the stand-in that it gets. An array is `_reconstruct(ndarray, …)`, then its numbers; before
protocol 3, no bytes at all are `bytes()`."""

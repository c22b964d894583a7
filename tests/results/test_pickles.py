"""Pickles of strangers: plain data come back as they were, and anything else is refused before it runs."""

import os
import pickle
import struct
import sys

import numpy as np
import pytest

from results.pickles import NotPlain, read_plain

PROTOCOLS = range(5)
LEGACY = "numpy.core.multiarray" if np.__version__ < "2" else "numpy._core.multiarray"


class Call:
    """Pickles as a call of `function` with `arguments`, whose result is then given `state`."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


def named(module: str, name: str) -> bytes:
    """A pickle that is the thing of this name, taken from the stack as protocol 4 does: dots in `name` are followed."""
    text = [pickle.SHORT_BINUNICODE + bytes([len(each)]) + each.encode() for each in (module, name)]
    return pickle.PROTO + b"\4" + b"".join(text) + pickle.STACK_GLOBAL + pickle.STOP


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_containers_text_and_numbers_come_back_as_they_were(protocol):
    shared = [1]
    value = {"a": [1, 2.5, -7, 2**70], ("b", None): {True, False}, 3: "ü\n", "c": b"\0\xff", "d": [shared, shared]}
    assert read_plain(pickle.dumps(value, protocol)) == value
    assert read_plain(pickle.dumps(frozenset([1, 2]), protocol)) == {1, 2}
    assert np.isnan(read_plain(pickle.dumps(float("nan"), protocol)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "i4", "u1", "b1", ">f8", ">i2"])
def test_numpy_numbers_and_arrays_become_python_numbers_and_lists(protocol, kind):
    array = np.arange(12).reshape(2, 3, 2).astype(kind)
    assert read_plain(pickle.dumps(array, protocol)) == array.tolist()
    assert read_plain(pickle.dumps(np.asfortranarray(array[0]), protocol)) == array[0].tolist()
    number = read_plain(pickle.dumps([array[1, 2, 0], array[0, 0, 1]], protocol))
    assert number == [array[1, 2, 0].item(), array[0, 0, 1].item()]
    assert type(number[0]) is type(array[1, 2, 0].item())
    assert read_plain(pickle.dumps(np.zeros(0, kind), protocol)) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_either_name_of_numpys_module_is_read(protocol):
    data = pickle.dumps([np.float64(0.5), np.arange(3)], protocol)
    for name in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        if protocol == 4:  # there, a name has its length before it
            renamed = data.replace(bytes([len(LEGACY)]) + LEGACY.encode(), bytes([len(name)]) + name)
            start = data.index(pickle.FRAME) + 1
            size = len(renamed) - start - 8
            renamed = renamed[:start] + struct.pack("<Q", size) + renamed[start + 8 :]
        else:
            renamed = data.replace(LEGACY.encode(), name)
        assert read_plain(renamed) == [0.5, [0, 1, 2]]


def test_what_python_2_wrote_is_read():
    by_python_2 = (
        b"\x80\x02]q\x00(cnumpy.core.multiarray\nscalar\nq\x01cnumpy\ndtype\nq\x02U\x02f8K\x00K\x01\x87Rq\x03"
        b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbU\x08\x00\x00\x00\x00\x00\x00\xe0?\x86R"
        b"c__builtin__\nset\n]K\x07a\x85RU\x02\xe9te."
    )
    assert read_plain(by_python_2) == [0.5, {7}, "ét"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_call_of_anything_is_refused_by_name_and_not_made(protocol, tmp_path):
    touched = tmp_path / "touched"
    commands = {
        f"{os.system.__module__}.system": Call(os.system, f"touch {touched}"),
        "eval": Call(eval, f"open({str(touched)!r}, 'w')"),
        "exec": Call(exec, f"open({str(touched)!r}, 'w')"),
        "io.open": Call(open, str(touched), "w"),
        "getattr": Call(getattr, [], "append"),
        "bytearray": Call(bytearray, 10**12),
        "numpy": Call(np.load, str(touched)),
        "copy_?reg._reconstructor": object(),
    }
    for name, call in commands.items():
        if protocol >= 2 and name.startswith("copy"):
            continue  # there, objects are made by another operation
        with pytest.raises(NotPlain, match=name):
            read_plain(pickle.dumps([1, call], protocol))
    assert not touched.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("builtins", "__import__"),
        ("builtins", "list.__class__"),
        ("numpy", "ndarray.__class__"),
        ("numpy", "dtype.__init__.__globals__"),
        ("numpy.core.multiarray", "_reconstruct.__globals__"),
        ("numpy.core.multiarray", "fromfile"),
        ("numpy.testing._private.utils", "runstring"),
        ("results.pickles", "_ADMITTED"),
        ("results.pickles", "pickle.loads"),
        ("_codecs", "decode"),
    ],
)
def test_a_name_is_refused_though_it_be_numpys_or_behind_an_admitted_one(module, name):
    with pytest.raises(NotPlain, match=rf"{module}\.{name}".replace(".", r"\.").replace(r"\\.", r"\.")):
        read_plain(named(module, name))


def test_refusing_imports_nothing():
    read = "antigravity" in sys.modules
    with pytest.raises(NotPlain, match=r"antigravity\.geohash"):
        read_plain(named("antigravity", "geohash"))
    assert ("antigravity" in sys.modules) == read


def test_older_operations_that_make_objects_are_refused_too(tmp_path):
    touched = tmp_path / "touched"
    command = f"touch {touched}".encode()
    instance = b"(S'" + command + b"'\nios\nsystem\n."
    built = b"(cos\nsystem\nS'" + command + b"'\no."
    made = pickle.PROTO + b"\2cnumpy\nndarray\n(K\1tp0\n0g0\n" + b"cnumpy\nndarray\ng0\n" + pickle.NEWOBJ + b"."
    for data in (instance, built, made, b"\x80\2\x82\1.", b"Pname\n."):
        with pytest.raises(NotPlain):
            read_plain(data)
    assert not touched.exists()


def test_arrays_of_objects_and_of_other_types_are_refused():
    for array in (
        np.array([Call(os.system, "false"), 1], dtype=object),
        np.array([[1], "a"], dtype=object),
        np.zeros(2, "c16"),
        np.zeros(2, "U3"),
        np.zeros(2, "M8[s]"),
        np.zeros(2, [("a", "f8"), ("b", "O")]),
        np.void(b"abc"),
    ):
        with pytest.raises(NotPlain):
            read_plain(pickle.dumps(array))


def test_a_type_of_numbers_cannot_be_given_another_structure():
    for state in ((3, "<", None, None, None, 10**9, -1, 0), (3, "<", (np.dtype("f8"), (4,)), None, None, -1, -1, 0), 5):
        with pytest.raises(NotPlain):
            read_plain(pickle.dumps(Call(np.dtype, "f8", state=state), 2))


def test_nothing_can_be_set_on_what_a_file_may_name():
    admitted = pickle.PROTO + b"\2cnumpy\nndarray\n"
    for state in (b"}X\4\0\0\0makeK\1s", b"N}X\4\0\0\0makeK\1s\x86"):
        with pytest.raises(NotPlain):
            read_plain(admitted + state + pickle.BUILD + pickle.STOP)
    assert read_plain(pickle.dumps(np.arange(2))) == [0, 1]


def test_claims_of_size_take_no_memory():
    huge = 2**40
    reconstructed = pickle.dumps(np.zeros(3), 3).replace(
        b"K\x03\x85", b"\x8a\x06" + huge.to_bytes(6, "little") + b"\x85"
    )
    empty_rows = pickle.dumps(np.zeros((3, 0)), 3).replace(
        b"K\x03K\x00", b"\x8a\x06" + huge.to_bytes(6, "little") + b"K\x00"
    )
    claims = {
        "claims the shape": reconstructed,
        "0 numbers that claims": empty_rows,
        "by its shape alone": pickle.dumps(Call(np.ndarray, (huge, huge), "f8")),
        "no whole pickle": b"\x80\5\x96" + struct.pack("<Q", huge) + b".",
        "no whole pickle ": b"\x80\4\x8e" + struct.pack("<Q", huge) + b".",
    }
    for message, data in claims.items():
        with pytest.raises(NotPlain, match=message.strip()):
            read_plain(data)
    assert read_plain(b"\x80\4\x95" + struct.pack("<Q", huge) + b"N.") is None
    assert read_plain(b"\x80\2Nr\xff\xff\xff\xff.") is None  # kept as number 2^32 − 1: in C, 64 GiB


@pytest.mark.parametrize("data", [b"", b"N", b"garbage", b"version https://git-lfs.github.com/spec/v1\n", b"\x80\x63."])
def test_what_is_no_whole_pickle_is_refused(data):
    with pytest.raises(NotPlain, match="no whole pickle"):
        read_plain(data)


def test_a_pickle_that_is_cut_anywhere_is_refused():
    data = pickle.dumps(([1, {"a": np.float64(2)}, np.arange(3)], 7, "b"))
    for size in range(len(data)):
        with pytest.raises(NotPlain):
            read_plain(data[:size])


def test_a_hostile_name_is_shown_harmless_and_short():
    with pytest.raises(NotPlain) as refusal:
        read_plain(named("a\x1b[31m\n", "b" * 200))
    assert len(str(refusal.value)) < 150
    assert str(refusal.value).isprintable()

from __future__ import annotations

import collections
import math
import pickle
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.pickles.machine import unpickle
from firstdiff.readers.pickles.nested import named_tensors
from firstdiff.readers.pickles.python_objects import BUILTINS
from firstdiff.readers.pickles.torch_objects import TORCH, expand
from firstdiff.readers.pickles.values import Bag, Budget, Leaf, Opaque, Symbol, Table, shown
from tests.readers import hostile_pickles as hostile

MEGABYTE = 1 << 20


def no_ids(given: Any) -> Any:
    raise ReadError(f"has the persistent id {given!r}")


def read(data: bytes, persistent: Callable[[Any], Any] = no_ids) -> Any:
    return unpickle(data, TORCH, persistent, Budget(len(data)))


def plain(value: Any) -> Any:
    """A value of the machine as Python's unpickler would have given it."""
    if isinstance(value, Table):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, Bag):
        return set(map(plain, value))
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
KEYS = st.text(st.characters(exclude_categories=["Cs"])) | st.integers() | st.tuples(st.integers(), st.booleans())
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.dictionaries(KEYS, inner).map(collections.OrderedDict)
        | st.sets(st.integers())
        | st.frozensets(st.text("abc"))
    ),
    max_leaves=12,
)


@given(VALUES, st.integers(0, 5), st.booleans())
def test_plain_values_are_those_of_pythons_unpickler(value: Any, protocol: int, old_names: bool) -> None:
    data = pickle.dumps(value, protocol, fix_imports=old_names)
    assert plain(read(data)) == pickle.loads(data) == value


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("count", [0, 1, 255, 256, 70_000])
def test_long_strings_and_many_memo_entries(protocol: int, count: int) -> None:
    value = {
        "text": "ä" * count,
        "bytes": b"\xff" * count,
        "many": [str(n) for n in range(count)],
        "int": -(1 << count),
    }
    value |= {"back": value["many"]}
    if protocol < 2 and count > 3000:
        value["int"] = 0  # Python itself does not write such a number in decimal
    assert plain(read(pickle.dumps(value, protocol))) == value


def test_floats_keep_their_bits_and_nan_stays_nan() -> None:
    values = [0.1, -0.0, math.inf, -math.inf, 5e-324, math.nan]
    for protocol in range(6):
        found = read(pickle.dumps(values, protocol))
        assert [value.hex() for value in found] == [value.hex() for value in values]


def test_old_and_rare_ways_to_make_a_container() -> None:
    pairs = b"](]" + b"K\x01aK\x02aK\x03K\x04\x86e"
    made = {
        "pairs": hostile.reduced("collections", "OrderedDict", pairs),
        "counter": hostile.reduced("collections", "Counter", b"}K\x05K\x06s"),
        "tuple": hostile.reduced("builtins", "tuple", b"](K\x01K\x02e"),
        "new": hostile.named("torch", "Size") + b"K\x01K\x02\x86\x85}\x92",
        "bytes": hostile.reduced("builtins", "bytes"),
    }
    assert plain(read(hostile.pickled(hostile.table(**made)))) == {
        "pairs": {1: 2, 3: 4},
        "counter": {5: 6},
        "tuple": (1, 2),
        "new": (1, 2),
        "bytes": b"",
    }


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        (hostile.reduced("collections", "OrderedDict", b"]K\x01a"), "not made of pairs"),
        (hostile.reduced("collections", "OrderedDict", b"]K\x01\x85a"), "not made of pairs"),
        (hostile.reduced("builtins", "set", b"K\x01"), "something else than a list"),
        (hostile.reduced("builtins", "complex", hostile.text("1"), b"K\x01"), "not made of two floats"),
        (hostile.reduced("copyreg", "_reconstructor", b"N"), "object of no class"),
    ],
)
def test_containers_made_of_the_wrong_thing_are_an_error(code: bytes, finding: str) -> None:
    with pytest.raises(ReadError, match=finding):
        read(hostile.pickled(code))


def test_a_bytearray_and_a_defaultdict_are_read() -> None:
    value = {"b": bytearray(b"abc"), "d": collections.defaultdict(list, {"x": [1]}), "q": collections.deque([1, 2])}
    for protocol in range(6):
        found = plain(read(pickle.dumps(value, protocol)))
        assert found == {"b": b"abc", "d": {"x": [1]}, "q": [1, 2]}


def test_python_2_strings_are_read_with_their_escapes() -> None:
    assert read(b"S'a\\n\\t\\\\\\'\\xe4\\q'\n.") == "a\n\t\\'ä\\q"
    assert read(b"U\x02\xe4b.") == "äb"


def test_broken_text_gives_a_printable_name_rather_than_an_error() -> None:
    assert read(pickle.dumps("\ud800a", 4)).encode()
    assert read(b"V\\ud800a\n.").encode()


def test_a_name_is_only_a_name() -> None:
    symbol = read(hostile.pickled(hostile.named("os", "system")))
    assert type(symbol) is Symbol
    assert symbol.name == "os.system"


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that leaves a file behind when it is imported, and another when something of it is called."""
    (tmp_path / f"{hostile.CANARY}.py").write_text(hostile.CANARY_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop(hostile.CANARY, None)


@pytest.mark.parametrize("trick", hostile.LIVE)
def test_the_payloads_are_live(canary: Path, trick: str) -> None:
    payload = hostile.LIVE[trick].aimed_at(canary / "ran")
    pickle.loads(hostile.pickled(payload.code))
    assert (canary / "imported").exists()


@pytest.mark.parametrize("trick", hostile.LIVE)
def test_nothing_is_imported_or_run(canary: Path, trick: str) -> None:
    payload = hostile.LIVE[trick].aimed_at(canary / "ran")
    value = read(hostile.pickled(payload.code))
    assert type(value) in (Opaque, Symbol)
    assert value.name == payload.asks_for
    assert hostile.CANARY not in sys.modules
    assert sorted(path.name for path in canary.iterdir()) == [f"{hostile.CANARY}.py"]


@pytest.mark.parametrize(
    "discard",
    [
        lambda code: code + b"0",
        lambda code: b"(" + code + b"1",
        lambda code: code + b"0" + b"K\x010",
        lambda code: code,
        lambda code: b"(" + code,
        lambda code: code + b"q\x050",
    ],
    ids=["pop", "pop_mark", "twice", "left_on_stack", "left_under_a_mark", "kept_in_memo"],
)
def test_a_call_whose_result_is_thrown_away_condemns_the_file(discard: Callable[[bytes], bytes]) -> None:
    code = discard(hostile.reduced("os", "system", hostile.text("true")))
    with pytest.raises(RefusedError, match=r"asks for os\.system and throws the result away"):
        read(hostile.pickled(code, b"K\x05"))


def test_what_is_made_of_something_foreign_is_foreign() -> None:
    evil = hostile.reduced("os", "system", hostile.text("true"))
    assert read(hostile.pickled(hostile.tensor(hooks=evil)), lambda _: None).name == "os.system"
    assert read(hostile.pickled(hostile.reduced("collections", "OrderedDict") + evil + b"b")).name == "os.system"
    assert read(hostile.pickled(hostile.named("torch", "Size") + evil + b"R")).name == "os.system"
    assert read(hostile.pickled(evil + b")R")).name == "os.system"
    assert read(hostile.pickled(evil + b"}b" + b"K\x01a" + b"(K\x01K\x02u")).name == "os.system"


def test_a_persistent_id_goes_to_the_callback() -> None:
    assert read(b"\x80\x02K\x07Q.", lambda given: ("got", given)) == ("got", 7)
    assert read(b"Pabc\n.", lambda given: ("got", given)) == ("got", "abc")


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (b"", "ends too early"),
        (b"\x80", "ends too early"),
        (b"\x80\x02", "ends too early"),
        (b"\x80\x06N.", "protocol 6"),
        (b"\x80\x02\x82\x01.", "extension registry"),
        (b"\x80\x02\x83\x01\x00.", "extension registry"),
        (b"\x80\x02\x84\x01\x00\x00\x00.", "extension registry"),
        (b"\x80\x05\x97.", "kept outside"),
        (b"\x80\x05N\x98.", "kept outside"),
        (b"\x80\x02\xff.", "damaged at byte 3"),
        (b"\x80\x020NN.", "damaged"),
        (b"\x80\x02tNN.", "damaged"),
        (b"\x80\x02RNN.", "damaged"),
        (b"\x80\x02N\x86NN.", "damaged"),
        (b"\x80\x02h\x05NN.", "damaged"),
        (b"\x80\x02j\xff\xff\xff\xff.N", "damaged"),
        (b"\x80\x02K\x01K\x02aNN.", "damaged"),
        (b"\x80\x02}(K\x01uNN.", "damaged"),
        (b"\x80\x02]K\x01K\x02sNN.", "damaged"),
        (b"\x80\x02NNRNN.", "damaged"),
        (b"\x80\x02K\x01NbNN.", "damaged"),
        (b"\x80\x02KxK\x01\x93NN.", "damaged"),
        (b"\x80\x02(oNN.", "damaged"),
        (b"\x80\x02ctorch\nSize\nK\x01RNN.", "damaged"),
        (b"\x80\x02ctorch\nSize\n)NN\x92NN.", "damaged"),
        (b"Sabc\n.", "damaged"),
        (b"Ixyz\nNN.", "damaged"),
        (b"F1.2.3\nNN.", "damaged"),
        (b"F" + b"1" * 2000 + b"\nNN.", "damaged"),
        (b"L" + b"1" * 2000 + b"L\nNN.", "over 1,000 digits"),
        (b"cos", "ends too early"),
        (b"X\xff\xff\xff\xffabc.", "ends too early"),
        (b"\x8d" + b"\xff" * 8 + b"abc.", "ends too early"),
        (b"\x8e" + b"\x7f" * 8 + b"abc.", "ends too early"),
        (b"\x96" + b"\x7f" * 8 + b"abc.", "ends too early"),
        (b"\x8b\xff\xff\xff\x7fabc.", "ends too early"),
    ],
)
def test_damage_is_named(data: bytes, finding: str) -> None:
    with pytest.raises(ReadError, match=finding):
        read(data)


def test_a_memo_index_of_two_billion_costs_nothing() -> None:
    assert read(b"\x80\x02K\x05r\xff\xff\xff\x7f0j\xff\xff\xff\x7f.") == 5


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_every_truncation_is_a_read_error(protocol: int) -> None:
    data = pickle.dumps({"a": [1, 2.5, "x", (1,), {3}], "b": b"xyz", "c": 1 << 80, "d": 1j}, protocol)
    for size in range(len(data)):
        with pytest.raises(ReadError):
            read(data[:size])


def nested(opener: bytes, closer: bytes) -> bytes:
    count = 100_000
    return hostile.pickled(opener * count, b"K\x01", closer * count)


def doubling(first: bytes, again: bytes, levels: int = 200) -> bytes:
    """Every level holds the one before twice."""
    steps = [first + b"q\x00"] + [again + b"q\x00" for _ in range(levels)]
    return hostile.pickled(*steps)


BOMBS = {
    "doubling_lists": doubling(b"](K\x01Ne", b"](h\x00h\x00e"),
    "doubling_numbers": doubling(b"](K\x01K\x02e", b"](h\x00h\x00e"),
    "doubling_tuples": doubling(b"N", b"h\x00h\x00\x86"),
    "doubling_tables": doubling(b"K\x01", b"}(" + hostile.text("a") + b"h\x00" + hostile.text("b") + b"h\x00u"),
    "doubling_sets": doubling(b"K\x01", b"\x8f(h\x00h\x00\x90"),
    "wide_numbers": doubling(b"](" + b"K\x01" * 1000 + b"e", b"](" + b"h\x00" * 1000 + b"e", 40),
    "deep_lists": nested(b"](", b"e"),
    "deep_tuples": nested(b"", b"\x85"),
    "deep_tables": nested(b"}(N", b"u"),
    "holds_itself": hostile.pickled(b"]q\x00h\x00aK\x01a"),
    "table_holds_itself": hostile.pickled(b"}q\x00K\x01h\x00s"),
    "holds_itself_often": hostile.pickled(b"]q\x00(" + b"h\x00" * 1000 + b"e"),
    "long_name_often": hostile.pickled(hostile.text("n" * 500_000) + b"q\x000](" + (b"}h\x00K\x01s" * 50_000) + b"e"),
    "long_bytes_key_often": hostile.pickled(
        b"B" + (500_000).to_bytes(4, "little") + b"n" * 500_000 + b"q\x000}(" + (b"h\x00K\x01" * 50_000) + b"u"
    ),
    "encoded_often": hostile.pickled(
        hostile.text("n" * 500_000) + b"q\x000" + hostile.named("_codecs", "encode") + b"q\x010](",
        b"h\x01h\x00\x85R" * 50_000 + b"e",
    ),
    "copied_often": hostile.pickled(
        b"](" + b"N" * 200_000 + b"eq\x000" + hostile.named("builtins", "set") + b"q\x010](",
        b"h\x01h\x00\x85R" * 50_000 + b"e",
    ),
    "arguments_often": hostile.pickled(
        b"(" + b"N" * 200_000 + b"tq\x000" + hostile.named("torch", "Size") + b"q\x010](",
        b"h\x01h\x00R" * 50_000 + b"e",
    ),
}


FINDINGS = "out of all proportion|levels deep, or contains itself|damaged"


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_with_flat_memory(bomb: str) -> None:
    data = BOMBS[bomb]
    budget = Budget(len(data))
    tracemalloc.start()
    try:
        with pytest.raises(ReadError, match=FINDINGS):
            named_tensors(unpickle(data, TORCH, no_ids, budget), expand, budget)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 150 * MEGABYTE


@pytest.mark.parametrize("tuples", [doubling(b"K\x01", b"h\x00h\x00\x86"), nested(b"", b"\x85q\x00")])
def test_a_key_that_is_a_bomb_is_not_touched(tuples: bytes) -> None:
    (found,) = named_tensors(read(tuples[:-1] + b"0}h\x00K\x01s."), expand, Budget(MEGABYTE))
    assert found.name == "#0"


def test_keys_that_collide_are_not_hashed() -> None:
    prime = (1 << 61) - 1
    keys = b"".join(hostile.number(n * prime) + b"K\x01" for n in range(20_000))
    found = named_tensors(read(hostile.pickled(b"}(" + keys + b"u")), expand, Budget(MEGABYTE))
    assert len(found) == 20_000


def test_an_endless_pickle_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstdiff.readers.pickles.machine._MAX_STEPS", 1000)
    assert read(hostile.pickled(b"](" + b"N" * 900 + b"e")) == [None] * 900
    with pytest.raises(RefusedError, match="over 1,000 steps"):
        read(hostile.pickled(b"](" + b"N" * 1100 + b"e"))


OPCODES = st.sampled_from([bytes([code]) for code in b"(.0123FINTSUVXZabcdeghijklopqrstu])}KMJG"])
PIECES = (
    st.sampled_from(list(hostile.LIVE.values())).map(lambda payload: payload.code)
    | st.sampled_from([hostile.named(*name.rsplit(".", 1)) for name in TORCH])
    | st.sampled_from([hostile.tensor(), b"h\x00", b"q\x00", b"K\x01", b"\x85", b"\x86", b"\x87", b"\x81", b"R", b"b"])
    | OPCODES
    | st.binary(max_size=3)
)


@given(st.lists(PIECES, max_size=40))
def test_random_opcodes_give_a_value_or_a_read_error(pieces: list[bytes]) -> None:
    data = hostile.pickled(*pieces)
    budget = Budget(len(data))
    try:
        found = named_tensors(unpickle(data, TORCH, lambda given: given, budget), expand, budget)
    except ReadError:
        return
    for item in found:
        assert isinstance(item.source, ReadError) or item.source.read() is not None


def test_names_from_a_file_are_fit_for_a_message() -> None:
    assert shown("os.system") == "os.system"
    assert shown("a\nb\x1b[31m") == r"a\nb\x1b[31m"
    assert len(shown("x" * 10_000)) < 200


def test_the_table_is_the_whole_of_what_can_be_called() -> None:
    assert unpickle(hostile.pickled(hostile.reduced("collections", "OrderedDict")), {}, no_ids, Budget(99)).name
    assert type(
        unpickle(hostile.pickled(hostile.reduced("collections", "OrderedDict")), BUILTINS, no_ids, Budget(99))
    ) is (Table)
    assert isinstance(read(hostile.pickled(hostile.tensor()), lambda _: None), Leaf)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstdiff.trace import ROLES, Key

KEYS = st.builds(
    Key,
    name=st.text(max_size=12)
    | st.sampled_from(["a@1", "a:in.0", "x#s2", "x#r1", "w:param", "a@1:in.0#s2#r3", "@", ":out"]),
    role=st.sampled_from([role for role in ROLES if role != "tap"]),
    slot=st.text(st.characters(exclude_characters="@:#"), max_size=6) | st.just("0"),
    call=st.integers(0, 20),
    step=st.integers(0, 20),
    rank=st.integers(0, 20),
)


@given(KEYS)
def test_text_and_back_is_the_same_key(key: Key) -> None:
    assert Key.parse(str(key)) == key


@given(KEYS, KEYS)
def test_two_keys_never_share_a_text(one: Key, other: Key) -> None:
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (Key("layers.0.ln_1"), "layers.0.ln_1"),
        (Key("layers.0.attn", "input", "0", 1), "layers.0.attn@1:in.0"),
        (Key("h", "output", "1"), "h:out.1"),
        (Key("ln.weight", "param"), "ln.weight:param"),
        (Key("h", step=2, rank=3), "h#s2#r3"),
    ],
)
def test_keys_read_as_documented(key: Key, text: str) -> None:
    assert str(key) == text
    assert Key.parse(text) == key

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firstdiff.errors import SettingsError
from firstdiff.pairing import PairingOptions, load_map, pair_up, parse_map, write_map
from firstdiff.trace import Record, Trace
from tests.pairing.traces import missing_of, named, pairs_of, random, recorded

REFERENCE = named("q", "k", "v", "layers.0.up", "layers.1.up", "mel", "x:in.0")
CANDIDATE = named("qkv", "blk.0.a", "blk.0.b", "blk.1.a", "blk.1.b", "spectrogram")


def mapped(text: str, reference: Trace = REFERENCE, candidate: Trace = CANDIDATE) -> list[tuple[str, str]]:
    result = pair_up(reference, candidate, PairingOptions(map=parse_map(text, "my.toml")))
    assert {match.pairing.method for match in result.pairs} == {"map"}
    assert {match.pairing.confidence for match in result.pairs} == {1.0}
    return pairs_of(result)


def test_a_key_is_paired_with_a_key() -> None:
    assert mapped('[[pair]]\nreference = "mel"\ncandidate = "spectrogram"') == [("mel", "spectrogram")]


def test_several_parts_are_paired_with_a_fused_tensor_in_the_stated_order() -> None:
    text = '[[pair]]\nreference = ["v", "q", "k"]\ncandidate = "qkv"'
    assert mapped(text) == [("v q k", "qkv")]


def test_a_tensor_is_paired_with_its_shards() -> None:
    text = '[[pair]]\nreference = "layers.0.up"\ncandidate = ["blk.0.a", "blk.0.b"]'
    assert mapped(text) == [("layers.0.up", "blk.0.a blk.0.b")]


def test_a_regex_pairs_by_its_groups() -> None:
    text = "[[regex]]\nreference = 'layers\\.(\\d+)\\.up'\ncandidate = 'blk.\\1.a'"
    assert mapped(text) == [("layers.0.up", "blk.0.a"), ("layers.1.up", "blk.1.a")]


def test_a_regex_with_several_targets_pairs_shards() -> None:
    text = "[[regex]]\nreference = 'layers\\.(?P<n>\\d+)\\.up'\ncandidate = ['blk.\\g<n>.a', 'blk.\\g<n>.b']"
    assert mapped(text) == [("layers.0.up", "blk.0.a blk.0.b"), ("layers.1.up", "blk.1.a blk.1.b")]


def test_several_regexes_with_one_target_pair_a_fused_tensor() -> None:
    text = "[[regex]]\nreference = ['(x\\.)q', '(x\\.)k', '(x\\.)v']\ncandidate = '\\1qkv'"
    assert mapped(text, named("x.v", "x.k", "x.q"), named("x.qkv")) == [("x.q x.k x.v", "x.qkv")]


def test_a_regex_leaves_alone_what_a_pair_names() -> None:
    text = (
        "[[regex]]\nreference = 'layers\\.(\\d+)\\.up'\ncandidate = 'blk.\\1.a'\n"
        '[[pair]]\nreference = "layers.0.up"\ncandidate = "spectrogram"'
    )
    assert mapped(text) == [("layers.0.up", "spectrogram"), ("layers.1.up", "blk.1.a")]


def test_the_first_regex_wins() -> None:
    text = (
        "[[regex]]\nreference = 'layers\\.0\\.up'\ncandidate = 'blk.0.b'\n"
        "[[regex]]\nreference = 'layers\\.(\\d+)\\.up'\ncandidate = 'blk.\\1.a'"
    )
    assert mapped(text) == [("layers.0.up", "blk.0.b"), ("layers.1.up", "blk.1.a")]


def test_a_recipe_is_passed_on_as_it_is() -> None:
    text = '[[pair]]\nreference = "mel"\ncandidate = "spectrogram"\nrecipe = "b s h -> s (b h)"'
    result = pair_up(REFERENCE, CANDIDATE, PairingOptions(map=parse_map(text)))
    assert [match.recipe for match in result.pairs] == ["b s h -> s (b h)"]


def test_a_map_goes_before_equal_names() -> None:
    text = '[[pair]]\nreference = "a"\ncandidate = "b"'
    result = pair_up(named("a", "b"), named("a", "b"), PairingOptions(map=parse_map(text)))
    assert pairs_of(result) == [("a", "b")]
    assert missing_of(result) == ["b"]


def test_an_entry_with_one_side_keeps_a_tensor_apart() -> None:
    text = '[[pair]]\nreference = "a"'
    result = pair_up(named("a", "b"), named("a", "b"), PairingOptions(map=parse_map(text)))
    assert pairs_of(result) == [("b", "b")]
    assert missing_of(result) == ["a"]


def test_names_a_regex_makes_in_vain_are_said() -> None:
    text = "[[regex]]\nreference = 'layers\\.(\\d+)\\.up'\ncandidate = 'blk.\\1.a'"
    result = pair_up(REFERENCE, named("blk.1.a", "b"), PairingOptions(map=parse_map(text, "my.toml")))
    assert result.warnings == ("my.toml, line 1: 1 of 2 names it makes are not in the candidate, such as 'blk.0.a'",)


BAD = {
    'a = "b': "my.toml, line 1: this is not valid TOML (unterminated string)",
    "[[pair]]\nreference = ": "my.toml, line 2: this is not valid TOML (invalid value)",
    "": "my.toml names nothing; write [[pair]] with a reference and a candidate",
    "\n[[pears]]\n": "my.toml, line 2: 'pears' is not known (did you mean pair?); a map has [[pair]] and [[regex]]",
    "[pair]\nreference = 'a'": "my.toml, line 1: [pair] is one table where a list is expected; write [[pair]]",
    "[[pair]]": "my.toml, line 1: the entry names nothing; give it a reference and a candidate",
    "\n[[regex]]\nreference = 'a'": "my.toml, line 2: the entry names nothing; give it a reference and a candidate",
    "pair = [3]": "my.toml, line 1: 3 stands where a table with reference and candidate is expected",
    "[[pair]]\nreference = 3": "my.toml, line 1: reference is 3; it takes a key, or a list of keys",
    '[[pair]]\nreference = ["q", "q"]': "my.toml, line 1: reference has 'q' twice",
    '[[pair]]\nrefrence = "q"': "my.toml, line 1: 'refrence' is not known (did you mean reference?); "
    "an entry has reference, candidate, recipe",
    '[[pair]]\nreference = "q"\nrecipe = 1': "my.toml, line 1: recipe is 1; "
    "it takes a text such as 'b s h d -> s (b h) d'",
    "[[regex]]\nreference = '('\ncandidate = 'a'": "my.toml, line 1: the regex '(' does not parse "
    "(missing ), unterminated subpattern at position 0)",
    "[[regex]]\nreference = 'a'\ncandidate = '\\1'": "my.toml, line 1: '\\\\1' uses a group that 'a' does not have",
}


@pytest.mark.parametrize(("text", "said"), BAD.items(), ids=range(len(BAD)))
def test_a_map_that_makes_no_sense_is_one_sentence_with_the_line(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_map(text, "my.toml")
    assert str(error.value) == said


UNFIT = {
    '# mine\n\n[[pair]]\nreference = "mle"\ncandidate = "qkv"': "my.toml, line 3: the reference arrays has no tensor "
    "'mle' (did you mean mel?)",
    '[[pair]]\nreference = "q"\ncandidate = "nothing"': "my.toml, line 1: the candidate arrays has no tensor 'nothing'",
    '[[pair]]\nreference = "q"\n\n[[pair]]\nreference = "q"\ncandidate = "qkv"': "my.toml, line 4: the reference 'q' "
    "is mapped twice; line 1 has it already",
    '[[pair]]\nreference = "q"\ncandidate = "qkv"\n[[pair]]\nreference = "k"\ncandidate = "qkv"': "my.toml, line 4: "
    "the candidate 'qkv' is mapped twice; line 1 has it already",
    "[[regex]]\nreference = '[qk]'\ncandidate = 'qkv'": "my.toml, line 1: the candidate 'qkv' is mapped twice, "
    "to 'q' and 'k'",
    "[[regex]]\nreference = 'nothing'\ncandidate = 'qkv'": "my.toml, line 1: the regex 'nothing' matches no reference "
    "tensor",
    "[[regex]]\nreference = 'q'\ncandidate = 'nothing'": "my.toml, line 1: no candidate tensor is called 'nothing', "
    "nor any other name it makes",
}


@pytest.mark.parametrize(("text", "said"), UNFIT.items(), ids=range(len(UNFIT)))
def test_a_map_that_does_not_fit_the_traces_is_one_sentence_with_the_line(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as error:
        mapped(text)
    assert str(error.value) == said


def test_a_map_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text('[[pair]]\nreference = "méla"\ncandidate = "b"\n', encoding="utf-8")
    assert load_map(file).entries[0].reference == ("méla",)


def test_a_file_that_is_not_there_or_no_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the map .*No such file"):
        load_map(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="is not UTF-8 text; a map file is TOML"):
        load_map(tmp_path / "binary.toml")


def test_what_was_found_is_written_and_reads_back_as_the_same_pairs() -> None:
    reference = Trace.from_arrays(random(["layers.0.self_attn.q_proj", 'odd "name"\\', "alone\x7f", "foreign"]))
    values = {"renamed": reference["foreign"].values().view()}
    candidate = Trace.from_arrays(
        {"blk.0.attn_q": np.ones((6, 10)), 'odd "name"\\': np.ones(3), **values, "extra": np.zeros(3)}
    )
    result = pair_up(reference, candidate)
    again = pair_up(reference, candidate, PairingOptions(map=parse_map(write_map(result))))
    assert pairs_of(again) == pairs_of(result)
    assert len(pairs_of(result)) == 3
    assert {match.pairing.method for match in again.pairs} == {"map"}


def test_shards_recipes_and_parts_read_back() -> None:
    text = (
        '[[pair]]\nreference = "layers.0.up"\ncandidate = ["blk.0.a", "blk.0.b"]\nrecipe = "a\\nb"\n'
        '[[pair]]\nreference = ["q", "k", "v"]\ncandidate = "qkv"\n'
    )
    first = pair_up(REFERENCE, CANDIDATE, PairingOptions(map=parse_map(text)))
    again = pair_up(REFERENCE, CANDIDATE, PairingOptions(map=parse_map(write_map(first))))
    assert again.pairs == first.pairs


def test_a_written_map_tells_how_each_pair_was_found_and_what_is_left_over() -> None:
    reference = named("layers.0.self_attn.q_proj", "layers.0.norm_of_mine")
    candidate = named("blk.0.attn_q", "layers.0.norm_of_yours")
    text = write_map(pair_up(reference, candidate))
    assert "[[pair]]  # normalised, 0.95\n" in text
    assert (
        '# [[pair]]\n# reference = "layers.0.norm_of_mine"\n# candidate = "layers.0.norm_of_yours"  # the same place'
        in text
    )
    assert '# [[pair]]\n# candidate = "layers.0.norm_of_yours"\n' in text


def test_a_key_that_occurs_twice_is_not_written_as_if_it_could_be_named() -> None:
    twice = recorded(Record(name="a"), Record(name="a"), Record(name="b"))
    parsed = parse_map(write_map(pair_up(twice, twice)))
    assert [entry.reference for entry in parsed.entries] == [("b",)]

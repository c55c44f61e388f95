"""Rows of logits and ids tell how far tokens agree, and where they first do not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.comparing import token_rows
from firstdiff.reports.text import render

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(2, 6, 32)).astype(np.float32) * 3


def plain_kl(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    p, q = (np.exp(side.astype(float)) / np.exp(side.astype(float)).sum(-1, keepdims=True) for side in (ours, theirs))
    return np.asarray((p * np.log(p / q)).sum(-1))


def test_figures_equal_their_plain_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_rows, "_BLOCK", 70)  # two positions a block
    other = LOGITS + RNG.normal(size=LOGITS.shape).astype(np.float32)
    found = fd.compare({"logits": LOGITS}, {"logits": other}).pairs[0].logits
    assert found is not None
    assert (found.vocab_size, found.positions, found.looked_at, found.not_finite) == (32, 12, 12, 0)
    assert found.same_argmax == pytest.approx((LOGITS.argmax(-1) == other.argmax(-1)).mean())
    assert found.mean_kl == pytest.approx(plain_kl(LOGITS, other).mean())
    assert found.max_kl == pytest.approx(plain_kl(LOGITS, other).max())
    tops = [np.argsort(-side, axis=-1)[..., :5].reshape(-1, 5) for side in (LOGITS, other)]
    shared = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(*tops, strict=True)])
    assert found.shared_top_k == pytest.approx(shared)


def test_a_flip_of_two_nearly_equal_logits_is_a_near_tie() -> None:
    ours, theirs = LOGITS.copy(), LOGITS.copy()
    ours[1, 3, :2] = 20.0, np.nextafter(np.float32(20), np.float32(0))
    theirs[1, 3, :2] = ours[1, 3, 1::-1]
    pair = fd.compare({"logits": ours}, {"logits": theirs}).pairs[0]
    assert pair.status == "match"
    assert pair.logits is not None
    change = pair.logits.first_argmax
    assert change is not None
    assert (change.index, change.reference, change.candidate, change.near_tie) == ((1, 3), 0, 1, True)


def test_another_best_token_beyond_the_noise_is_real() -> None:
    theirs = LOGITS.copy()
    theirs[0, 2, 7] = 30.0
    comparison = fd.compare({"logits": LOGITS}, {"logits": theirs})
    logits = comparison.pairs[0].logits
    assert logits is not None
    assert logits.first_argmax is not None
    assert (logits.first_argmax.index, logits.first_argmax.candidate, logits.first_argmax.near_tie) == (
        (0, 2),
        7,
        False,
    )
    assert "7 in place of" in "".join(render(comparison))
    assert "a real change" in "".join(render(comparison))


def test_logits_with_nan_are_counted_and_left_out() -> None:
    theirs = LOGITS.copy()
    theirs[0, 0, 3] = np.nan
    comparison = fd.compare({"logits": LOGITS}, {"logits": theirs})
    logits = comparison.pairs[0].logits
    assert logits is not None
    assert (logits.not_finite, logits.same_argmax, logits.max_kl) == (1, 1.0, 0.0)
    assert "1 position with NaN or Inf was left out" in "".join(render(comparison))


def test_tokens_that_are_hidden_on_both_sides_do_not_count() -> None:
    hidden = LOGITS.copy()
    hidden[..., 5] = -np.inf
    logits = fd.compare({"logits": hidden}, {"logits": hidden.copy()}).pairs[0].logits
    assert logits is not None
    assert (logits.not_finite, logits.mean_kl) == (0, 0.0)


def test_long_sequences_are_looked_at_from_the_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_rows, "MAX_LOGITS", 100)
    logits = fd.compare({"logits": LOGITS}, {"logits": LOGITS + 1}).pairs[0].logits
    assert logits is not None
    assert (logits.looked_at, logits.positions) == (3, 12)


@pytest.mark.parametrize(
    ("name", "is_logits"), [("model.lm_head", True), ("logits", True), ("out.log_probs", True), ("mlp", False)]
)
def test_rows_are_known_by_their_names(name: str, is_logits: bool) -> None:
    pair = fd.compare({name: LOGITS}, {name: LOGITS}).pairs[0]
    assert (pair.logits is not None) == is_logits


def saved_vocabulary(folder: Path, size: int) -> Path:
    path = folder / "vocab.json"
    path.write_text(json.dumps([f"t{index}" for index in range(size)]))
    return path


def test_a_vocabulary_makes_rows_of_its_size_logits_and_decodes_them(tmp_path: Path) -> None:
    theirs = LOGITS.copy()
    theirs[0, 0, 9] = 40.0
    found = fd.compare({"head": LOGITS}, {"head": theirs}, vocab=saved_vocabulary(tmp_path, 32)).pairs[0].logits
    assert found is not None
    assert found.first_argmax is not None
    assert found.first_argmax.candidate_token == "'t9'"


def test_a_vocabulary_of_another_size_is_a_warning(tmp_path: Path) -> None:
    found = fd.compare({"logits": LOGITS}, {"logits": LOGITS}, vocab=saved_vocabulary(tmp_path, 30))
    assert any("has 30 ids, but logits has 32 on its last axis" in warning for warning in found.warnings)


def test_logits_of_another_size_say_so() -> None:
    found = fd.compare({"logits": LOGITS}, {"logits": LOGITS[..., :30]})
    assert "logits has 30 tokens on its last axis in place of 32" in "".join(found.warnings)
    assert not fd.compare({"logits": LOGITS}, {"logits": LOGITS[:, :1]}).warnings


def test_ids_name_the_first_that_differs_and_its_token(tmp_path: Path) -> None:
    ours, theirs = np.arange(8).reshape(2, 4), np.arange(8).reshape(2, 4)
    theirs[1, 2:] = 3, 30
    comparison = fd.compare({"ids": ours}, {"ids": theirs}, vocab=saved_vocabulary(tmp_path, 8))
    ids = comparison.pairs[0].ids
    assert ids is not None
    assert (ids.different, ids.index, ids.reference, ids.candidate) == (2, (1, 2), 6, 3)
    assert (ids.reference_token, ids.candidate_token) == ("'t6'", "'t3'")
    assert "Ids: 2 differ, first at [1, 2]: 3 't3' in place of 6 't6'" in "".join(render(comparison))


def test_ids_of_other_lengths_are_compared_as_far_as_both_go() -> None:
    ids = fd.compare({"ids": np.array([[1, 2, 3, 4]])}, {"ids": np.array([[1, 2, 9]])}).pairs[0].ids
    assert ids is not None
    assert (ids.reference_length, ids.candidate_length, ids.index, ids.candidate) == (4, 3, (0, 2), 9)

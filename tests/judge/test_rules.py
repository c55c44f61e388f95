from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from firstdiff import dtypes
from firstdiff.errors import SettingsError
from firstdiff.judge import Rules, load_rules, tolerance_for

SCALE = 2.0


def dt(name: str) -> np.dtype:
    return dtypes.from_name(name)


@pytest.mark.parametrize(
    ("reference", "candidate", "k", "eps"),
    [
        ("float32", "float32", 256, 2**-23),
        ("float64", "float64", 256, 2**-52),
        ("float64", "float32", 256, 2**-23),
        ("float32", "bfloat16", 24, 2**-7),
        ("float16", "float16", 24, 2**-10),
        ("bfloat16", "float16", 24, 2**-7),
        ("float32", "float8_e4m3fn", 2, 2**-3),
        ("float8_e5m2", "float8_e4m3fn", 2, 2**-2),
        ("complex64", "complex64", 256, 2**-23),
        ("int64", "float32", 256, 2**-23),
    ],
)
def test_the_default_follows_the_coarser_type(reference: str, candidate: str, k: float, eps: float) -> None:
    found = tolerance_for(Rules(), "x", dt(reference), dt(candidate), SCALE)
    assert (found.rule, found.k, found.scale, found.source) == ("default", k, 2.0, "default")
    assert (found.atol, found.rtol) == (k * eps * 2.0, k * eps)


@pytest.mark.parametrize(
    ("reference", "candidate"), [("int64", "int32"), ("bool", "bool"), ("float8_e8m0fnu", "float8_e8m0fnu")]
)
def test_exact_types_are_compared_exactly(reference: str, candidate: str) -> None:
    found = tolerance_for(Rules(), "x", dt(reference), dt(candidate), SCALE)
    assert (found.rule, found.atol, found.rtol) == ("exact", 0, 0)


@pytest.mark.parametrize("name", sorted(set(dtypes.BY_NAME) - {"bool"}))
def test_no_default_is_so_wide_that_zeros_match_everything(name: str) -> None:
    """A candidate of all zeros must be outside somewhere, whatever the type."""
    found = tolerance_for(Rules(), "x", dt(name), dt(name), SCALE)
    largest = 3 * SCALE
    assert largest > found.atol + found.rtol * largest


@pytest.mark.parametrize(
    ("types", "rtol", "atol"),
    [
        (("float32", "float32"), 1.3e-6, 1e-5),
        (("float32", "bfloat16"), 1.6e-2, 1e-5),
        (("float16", "float64"), 1e-3, 1e-5),
        (("float64", "float64"), 1e-7, 1e-7),
        (("int64", "int64"), 0.0, 0.0),
    ],
)
def test_torchs_table(types: tuple[str, str], rtol: float, atol: float) -> None:
    found = tolerance_for(Rules(table="torch"), "x", *map(dt, types), SCALE)
    assert (found.rule, found.rtol, found.atol) == ("torch", rtol, atol)


def test_torchs_table_is_torchs() -> None:
    import torch

    for name in ("float16", "bfloat16", "float32", "float64", "complex64"):
        one = torch.ones(1, dtype=getattr(torch, name))
        found = tolerance_for(Rules(table="torch"), "x", dt(name), dt(name), SCALE)
        with pytest.raises(AssertionError) as raised:
            torch.testing.assert_close(one, one * 2)
        assert f"(up to {found.rtol} allowed)" in str(raised.value)
        assert f"(up to {found.atol} allowed)" in str(raised.value)


def test_one_stated_bound_leaves_the_other_at_zero() -> None:
    found = tolerance_for(Rules(atol=0.5), "x", dt("float32"), dt("float32"), SCALE)
    assert (found.rule, found.atol, found.rtol) == ("stated", 0.5, 0.0)


def write(folder: Path, text: str) -> Path:
    (folder / "tolerances.toml").write_text(text)
    return folder / "tolerances.toml"


def test_the_first_named_rule_that_matches_wins(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
[[tolerances]]
name = "vocoder.out"
atol = 1
[[tolerances]]
name = 'vocoder\\..*'
rtol = 1e-3
[[tolerances]]
name = "mel"
k = 64
""",
    )
    rules = Rules(named=load_rules(path), atol=9.0)
    types = dt("float32"), dt("float32")
    found = {key: tolerance_for(rules, key, *types, SCALE) for key in ("vocoder.out", "vocoder.x", "mel", "mels")}
    assert [(t.atol, t.rtol) for t in found.values()] == [(1, 0), (0, 1e-3), (64 * 2**-23 * 2, 64 * 2**-23), (9, 0)]
    assert found["vocoder.x"].source == f"{path}, line 5"
    assert rules.unused(["vocoder.out", "mel"]) == (
        f"{path}, line 5: the tolerance for 'vocoder\\\\..*' matches no tensor",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[tolerances", "is not valid TOML"),
        ("", "has no [[tolerances]]"),
        ("tolerances = 3", "has no [[tolerances]]"),
        ("\n[[tolerances]]\natol = 1", "line 2: a tolerance needs a name"),
        ("[[tolerances]]\nname = 'x'\natol = -1", "line 1: atol is -1; it takes a number from 0 up"),
        ("[[tolerances]]\nname = 'x'\nrtol = nan", "line 1: rtol is nan"),
        ("[[tolerances]]\nname = 'x'\natol = '1e-3'", "line 1: atol is '1e-3'"),
        ("[[tolerances]]\nname = 'x'", "line 1: a tolerance takes atol and rtol, or k alone"),
        ("[[tolerances]]\nname = '('\natol = 1", "line 1: '(' is not a regular expression"),
        ("[[tolerances]]\nname = 'x'\nabs = 1", "line 1: abs is none of atol, k, name, rtol"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError, match=re.escape(says)) as raised:
        load_rules(path)
    assert str(raised.value).startswith(str(path))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml: cannot be read"):
        load_rules(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("bounds", [{"atol": -1.0}, {"rtol": float("nan")}])
def test_a_stated_bound_must_make_sense(bounds: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match="takes a number from 0 up"):
        Rules(**bounds)  # type: ignore[arg-type]

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firstdiff.judge import parse_rules, tolerances_toml
from firstdiff.schema import Tolerance

limits = st.sampled_from([0.0, 1e-5, 0.25, 3.0])
tolerances = st.one_of(
    st.builds(Tolerance, rule=st.just("default"), k=st.sampled_from([1.0, 256.0]), atol=limits, rtol=limits),
    st.builds(Tolerance, rule=st.sampled_from(["stated", "torch", "exact"]), atol=limits, rtol=limits),
)
keys = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)


@given(allowed=st.dictionaries(keys, tolerances, min_size=1, max_size=6))
def test_every_key_gets_what_was_stated(allowed: dict[str, Tolerance]) -> None:
    rules = parse_rules(tolerances_toml(allowed.items()))
    for key, tolerance in allowed.items():
        rule = next((rule for rule in rules if rule.pattern.fullmatch(key)), None)
        assert rule is not None
        if tolerance.rule == "default":
            assert (rule.k, rule.atol) == (tolerance.k, None)
        else:
            assert (rule.atol, rule.rtol, rule.k) == (tolerance.atol, tolerance.rtol, None)


def test_what_a_file_cannot_say_is_a_comment() -> None:
    text = tolerances_toml([("x", Tolerance(rule="stated", atol=1.0, rtol=0.0))], equal_nan=True)
    assert "--equal-nan" in text.splitlines()[1]

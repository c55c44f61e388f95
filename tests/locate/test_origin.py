from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import firstdiff as fd
from firstdiff.locate import Located, MeasuredPair, RowGraph, locate
from firstdiff.readers import open_trace
from firstdiff.schema import Note
from firstdiff.trace import ArraySource, Record, Tensor, Trace
from tests.locate.compared import graph_of, located, rows_of
from tests.locate.models import change, model, trace

# code faults, weight or setting faults, and where each must be placed
IN_OPERATIONS = [
    ((), ("layers.0.ln_1!eps",), "layers.0.ln_1"),
    ((), ("layers.1.ln_2!eps",), "layers.1.ln_2"),
    ((), ("layers.1.attn.qkv!weight",), "layers.1.attn.qkv.linear"),
    ((), ("layers.2.mlp.0!bias",), "layers.2.mlp.0.linear"),
    ((), ("layers.1.mlp.2!weight",), "layers.1.mlp.2.linear"),
    ((), ("layers.2.mlp.1!activation",), "layers.2.mlp.1"),
    ((), ("ln_f!bias",), "ln_f"),
    ((), ("head!weight",), "head.linear"),
    (("layers.1.attn.mask",), (), "layers.1.attn.triu"),
    (("layers.1.attn.scale",), (), "layers.1.attn.div"),
    (("layers.0.attn.hidden",), (), "layers.0.attn.add"),
    (("layers.1.residual",), (), "layers.1.add"),
]
BETWEEN = [
    ("layers.1.after_ln_1", "layers.1.attn:in.0", "layers.1", ("layers.1.ln_1", "layers.1.attn:in.0")),
    ("layers.2.after_ln_2", "layers.2.mlp:in.0", "layers.2", ("layers.2.ln_2", "layers.2.mlp:in.0")),
    ("layers.1.end", "layers.1", "layers.1", ("layers.1.add@1", "layers.1")),
    ("layers.0.attn.head", "layers.0.attn.matmul@1", "layers.0.attn", ()),
]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return trace(model(), tmp_path_factory.mktemp("reference") / "t")


def candidate(path: Path, code: tuple[str, ...] = (), settings: tuple[str, ...] = (), **options: object) -> Trace:
    made = model(code, shuffled=True)
    for fault in settings:
        change(made, fault)
    return trace(made, path / "c", **options)


def sites(found: Located) -> list[str]:
    return [site.key for site in found.divergences]


def test_healthy_noise_has_no_divergence(reference: Trace, tmp_path: Path) -> None:
    other = candidate(tmp_path)
    assert not np.array_equal(
        reference["layers.0.attn.qkv"].values().view(), other["layers.0.attn.qkv"].values().view()
    )
    found = located(reference, other)
    assert (found.first_divergence, found.divergences, found.notes) == (None, (), ())
    assert all(pair.origin is None and pair.recovers_from is None for pair in found.pairs)


@pytest.mark.parametrize(("code", "settings", "key"), IN_OPERATIONS)
def test_a_fault_is_placed(
    reference: Trace, tmp_path: Path, code: tuple[str, ...], settings: tuple[str, ...], key: str
) -> None:
    found = located(reference, candidate(tmp_path, code, settings))
    first = found.first_divergence
    assert first is not None
    assert (first.key, first.origin, first.estimated) == (key, "introduced", False)
    assert sites(found) == [key]


@pytest.mark.parametrize(("fault", "key", "inside", "between"), BETWEEN)
def test_a_fault_in_code_between_modules_is_placed(
    reference: Trace, tmp_path: Path, fault: str, key: str, inside: str, between: tuple[str, ...]
) -> None:
    found = located(reference, candidate(tmp_path, (fault,)))
    first = found.first_divergence
    assert first is not None
    assert (first.key, first.origin, first.inside, first.between) == (key, "introduced", inside, between)
    assert sites(found) == [key]


@pytest.mark.parametrize(
    ("code", "settings", "keys"),
    [
        (("layers.0.after_ln_2",), ("layers.2.ln_1!eps",), ["layers.0.mlp:in.0", "layers.2.ln_1"]),
        (("layers.0.attn.scale",), ("layers.1.mlp.1!activation",), ["layers.0.attn.div", "layers.1.mlp.1"]),
        (("layers.0.attn.scale", "layers.2.after_ln_1"), (), ["layers.0.attn.div", "layers.2.attn:in.0"]),
        (("layers.0.end", "layers.1.end"), (), ["layers.0", "layers.1"]),
        ((), ("layers.0.ln_1!eps", "layers.0.ln_2!eps", "ln_f!bias"), ["layers.0.ln_1", "layers.0.ln_2", "ln_f"]),
    ],
)
def test_every_fault_is_listed(
    reference: Trace, tmp_path: Path, code: tuple[str, ...], settings: tuple[str, ...], keys: list[str]
) -> None:
    assert sites(located(reference, candidate(tmp_path, code, settings))) == keys


def test_a_fault_that_softmax_hides_is_placed_and_the_recovery_marked(reference: Trace, tmp_path: Path) -> None:
    found = located(reference, candidate(tmp_path, ("layers.1.attn.hidden",)))
    by_key = {pair.measured.key: pair for pair in found.pairs}
    assert sites(found) == ["layers.1.attn.add"]
    assert by_key["layers.1.attn.masked_fill"].origin == "inherited"
    assert by_key["layers.1.attn.softmax"].measured.status == "match"
    assert by_key["layers.1.attn.softmax"].recovers_from == by_key["layers.1.attn.masked_fill"].measured.index
    assert by_key["layers.1.attn.out"].recovers_from is None


def test_wrong_weights_are_evidence(reference: Trace, tmp_path: Path) -> None:
    found = located(reference, candidate(tmp_path, (), ("layers.1.ln_1!bias",)))
    assert found.first_divergence is not None
    assert found.first_divergence.reason is not None
    assert found.first_divergence.reason.endswith("its weight layers.1.ln_1.bias differs")
    assert {pair.origin for pair in found.pairs if pair.measured.role == "param"} == {None}


def test_other_weights_behind_an_error_are_a_second_one_though_they_cannot_be_computed_with(tmp_path: Path) -> None:
    hidden = {"exclude": ["layers.2.mlp.0.weight"]}
    ours = trace(model(), tmp_path / "r", **hidden)
    found = located(ours, candidate(tmp_path, (), ("layers.0.ln_2!eps", "layers.2.mlp.0!bias"), **hidden))
    first, second = found.divergences
    assert (first.key, first.estimated) == ("layers.0.ln_2", False)
    assert (second.key, second.origin, second.estimated) == ("layers.2.mlp.0.linear", "introduced", True)
    assert second.reason is not None
    assert "its weight layers.2.mlp.0.bias differs; capture with params='all' to know for certain" in second.reason
    assert any("whether there is a second error, capture with params='all'" in note.text for note in found.notes)


def test_other_weights_that_change_nothing_do_not_take_the_blame(tmp_path: Path) -> None:
    made = [model(), change(model(shuffled=True), "layers.0.ln_2!eps")]
    with torch.no_grad():
        for each in made:
            each.layers[2].mlp[0].bias[3] = -100.0  # GELU makes it 0
        made[1].layers[2].mlp[2].weight[:, 3] += 1.0
    found = located(trace(made[0], tmp_path / "r"), trace(made[1], tmp_path / "c"))
    weight = next(pair for pair in found.pairs if pair.measured.key == "layers.2.mlp.2.weight:param")
    assert (weight.measured.status, sites(found)) == ("mismatch", ["layers.0.ln_2"])


def test_weights_that_nothing_shows_are_told_of(reference: Trace, tmp_path: Path) -> None:
    made = model(shuffled=True)
    with torch.no_grad():
        made.wte.weight[3] *= 2  # a token that the input does not have
    found = located(reference, trace(made, tmp_path / "c"))
    assert found.first_divergence is None
    text = "Only weights differ (wte.weight); all that was computed on this input is within its limits"
    assert found.notes == (Note("other", None, text),)


def test_weights_alone_come_first_where_there_is_nothing_else() -> None:
    made = [Tensor(Record(name=name, role="param"), source) for name, source in _sources("a", "b")]
    other = [made[0], Tensor(made[1].record, _sources("c")[0][1])]
    found = locate(graph_of(Trace("r", tuple(made)), Trace("c", tuple(other))), order="given")
    assert found.first_divergence is not None
    assert (found.first_divergence.key, sites(found)) == ("b:param", ["b:param"])


def test_inputs_that_differ_are_named_as_such(reference: Trace, tmp_path: Path) -> None:
    made = model(shuffled=True)
    with torch.no_grad():
        from firstdiff.capturing import capture
        from firstdiff.readers import open_trace

        with capture(made, tmp_path / "c", params="all"):
            made(torch.zeros(2, 12, dtype=torch.int64))
    found = located(reference, open_trace(tmp_path / "c"))
    assert found.first_divergence is not None
    assert found.first_divergence.key == "root:in.0"
    assert found.first_divergence.reason == "the two runs were given different inputs"
    assert sites(found) == ["root:in.0"]


@pytest.mark.parametrize(
    ("code", "settings", "key", "between"),
    [
        (("layers.1.after_ln_2",), (), "layers.1.mlp", ("layers.1.ln_2", "layers.1.mlp")),
        ((), ("layers.1.ln_2!eps",), "layers.1.ln_2", ("layers.1.attn", "layers.1.ln_2")),
        ((), ("ln_f!bias",), "ln_f", ("layers.2", "ln_f")),
    ],
)
def test_a_candidate_of_few_tensors_is_placed_by_the_structure_of_the_reference(
    reference: Trace,
    tmp_path: Path,
    code: tuple[str, ...],
    settings: tuple[str, ...],
    key: str,
    between: tuple[str, ...],
) -> None:
    whole = candidate(tmp_path, code, settings)
    modules = {
        "wte",
        "ln_f",
        *(f"layers.{n}{part}" for n in range(3) for part in ("", ".ln_1", ".attn", ".ln_2", ".mlp")),
    }
    few = {tensor.name: tensor.values().read() for tensor in whole if str(tensor.key) in modules}
    found = located(reference, few)
    first = found.first_divergence
    assert first is not None
    assert (first.key, first.origin, first.between) == (key, "introduced", between)
    assert sites(found) == [key]


@pytest.mark.parametrize("level", ["module", "function"])
def test_without_inputs_the_growth_of_the_error_tells(tmp_path: Path, level: str) -> None:
    options = {"roles": ["output"], "level": level}
    made = model()
    ours = trace(made, tmp_path / "r", **options)
    theirs = candidate(tmp_path, (), ("layers.1.ln_2!eps",), **options)
    found = located(ours, theirs)
    first = found.first_divergence
    assert first is not None
    assert (first.key, first.origin) == ("layers.1.ln_2", "introduced")
    assert first.estimated or level == "function"
    assert sites(found) == ["layers.1.ln_2"]
    assert first.estimated == any("record inputs too (fd.capture" in note.text for note in found.notes)


@cache
def _activations() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found, x = {}, rng.standard_normal((1, 8, 16))
    for layer in range(4):
        for stage in ("post_ln_pre_attn", "query", "key", "value", "post_attn", "post_mlp"):
            x = np.tanh(x @ rng.standard_normal((16, 16)) / 4)
            found[f"{layer}_{stage}"] = x.astype(np.float32)
    return found


@pytest.mark.parametrize("named", ["layer_stage", "dict"])
def test_traces_of_other_tools_are_estimated(named: str) -> None:
    ours = _activations()
    names = list(ours)
    noise = np.random.default_rng(1)
    theirs = {
        name: values + np.float32((1e-2 if place >= 8 else 1e-7) * noise.standard_normal(values.shape))
        for place, (name, values) in enumerate(ours.items())
    }
    if named == "dict":
        ours, theirs = ({f"step{names.index(name):02}": side[name] for name in names} for side in (ours, theirs))
    found = located(ours, theirs, order="layer_stage" if named == "layer_stage" else "given")
    first = found.first_divergence
    assert first is not None
    assert (first.pair, first.origin, first.estimated) == (8, "introduced", True)
    # 1_key stands beside 1_query, not behind it: what feeds both is 1_post_ln_pre_attn
    assert first.between[0] == ("1_post_ln_pre_attn" if named == "layer_stage" else "step07")
    assert {pair.origin for pair in found.pairs[10:]} == {"inherited"}
    assert all(pair.estimated for pair in found.pairs[10:])


def test_the_first_of_a_plain_trace_is_unknown() -> None:
    found = located({"a": np.ones(4)}, {"a": np.zeros(4)})
    assert found.first_divergence is not None
    assert found.first_divergence.origin == "unknown"
    assert found.divergences == ()
    assert any("record inputs too (fd.capture" in note.text for note in found.notes)


def test_an_error_that_creeps_up_is_not_blamed_on_one_step() -> None:
    ours = {f"layers.{n}": np.linspace(1, 2, 64, dtype=np.float32) for n in range(12)}
    theirs = {name: values * np.float32(1 + 4e-6 * 2**place) for place, (name, values) in enumerate(ours.items())}
    found = located(ours, theirs)
    assert found.first_divergence is not None
    assert found.first_divergence.origin == "unknown"
    assert found.divergences == ()


def test_shapes_that_do_not_fit_are_a_divergence_as_well() -> None:
    ours = {"a": np.ones(4), "b": np.ones(3), "c": np.ones(4)}
    found = located(ours, ours | {"b": np.ones(5)})
    assert found.first_divergence is not None
    assert (found.first_divergence.key, found.first_divergence.origin) == ("b", "introduced")
    assert [pair.origin for pair in found.pairs] == [None, "introduced", None]


def test_error_over_depth_is_a_series(reference: Trace, tmp_path: Path) -> None:
    found = located(reference, candidate(tmp_path, (), ("layers.1.ln_2!eps",)))
    assert [point.index for point in found.depth] == sorted(point.index for point in found.depth)
    assert not any(":param" in point.key for point in found.depth)
    at = {point.key: point for point in found.depth}
    assert at["layers.1.ln_1"].relative < at["layers.1.ln_1"].allowed < at["layers.1.ln_2"].relative  # type: ignore[operator]


def test_steps_of_one_fault_are_one_site(tmp_path: Path) -> None:
    from firstdiff.capturing import capture
    from firstdiff.readers import open_trace

    traces = []
    for path, made in ((tmp_path / "r", model()), (tmp_path / "c", change(model(shuffled=True), "layers.1.ln_2!eps"))):
        with torch.no_grad(), capture(made, path, params="all"):
            for _ in range(3):
                made(torch.arange(12).reshape(1, 12))
        traces.append(open_trace(path))
    found = located(*traces)
    assert sites(found) == ["layers.1.ln_2"]
    introduced = [pair.measured.key for pair in found.pairs if pair.origin == "introduced"]
    assert introduced == ["layers.1.ln_2", "layers.1.ln_2#s1", "layers.1.ln_2#s2"]


def test_nothing_at_all() -> None:
    found = locate(RowGraph([]), order="given")
    assert (found.pairs, found.first_divergence, found.divergences, found.depth, found.notes) == ((), None, (), (), ())


def _sources(*names: str) -> list[tuple[str, object]]:
    from firstdiff.trace import ArraySource

    return [(name, ArraySource(np.full(4, float(ord(name))))) for name in names]


def test_rows_of_one_side_alone_are_no_divergence() -> None:
    rows: list[MeasuredPair] = rows_of({"a": np.ones(4), "b": np.ones(4)}, {"a": np.ones(4), "c": np.ones(4)})
    assert [row.status for row in rows] == ["match", "missing", "extra"]
    assert locate(RowGraph(rows), order="given").first_divergence is None


class _TwoOutputs(torch.nn.Module):
    """Gives back its result, and what it computed on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.last = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        early = self.first(x)
        return self.last(early), early


def test_an_output_made_before_the_error_does_not_count_as_recovered(tmp_path: Path) -> None:
    torch.manual_seed(0)
    ours = torch.nn.Sequential(_TwoOutputs())
    theirs = copy.deepcopy(ours)
    x = torch.randn(16, 8)
    with torch.no_grad():
        theirs[0].last.bias += 1.0
        for made, name in ((ours, "r"), (theirs, "c")):
            with fd.capture(made, tmp_path / name):
                made(x)
    found = located(open_trace(tmp_path / "r"), open_trace(tmp_path / "c"))
    by_key = {pair.measured.key: pair for pair in found.pairs}
    assert by_key["0.last"].measured.status == "mismatch"
    assert by_key["0:out.1"].measured.status == "match"
    assert by_key["0:out.1"].recovers_from is None


def test_a_part_that_the_error_does_not_touch_does_not_count_as_recovered(tmp_path: Path) -> None:
    torch.manual_seed(0)
    reference = _Parts()
    candidate = copy.deepcopy(reference)
    x = torch.randn(16, 8)
    with torch.no_grad():
        candidate.fused.bias[0] += 1.0
        for model, name in ((reference, "r"), (candidate, "c")):
            with fd.capture(model, tmp_path / name):
                model(x)
    found = located(open_trace(tmp_path / "r"), open_trace(tmp_path / "c"))
    by_key = {pair.measured.key: pair for pair in found.pairs}
    assert by_key["root.chunk"].measured.status == "mismatch"
    assert by_key["root.chunk:out.1"].measured.status == "match"
    assert by_key["root.chunk:out.1"].recovers_from is None


class _Parts(torch.nn.Module):
    """Splits a fused projection."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = torch.nn.Linear(8, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.fused(x).chunk(2, -1)
        return first + second


class Shares(torch.nn.Module):
    """The other factor of the product comes after the shares."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.value = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares = torch.sigmoid(torch.exp(self.score(x)))
        return shares * torch.tanh(self.value(x))


class Gated(torch.nn.Module):
    """A gate is cut from a product, of which the other part is used first."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.value = torch.nn.Linear(6, 12), torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given, gate = self.both(x).chunk(2, -1)
        return torch.exp(self.value(given)) * gate


@pytest.mark.parametrize(
    ("made", "unrecorded", "last_right"),
    [(Shares, ["root.sigmoid", "root.exp"], "score"), (Gated, ["root.exp", "root.chunk:out.1"], "value")],
)
def test_an_error_is_made_after_all_that_is_proven(
    made: type[torch.nn.Module], unrecorded: list[str], last_right: str, tmp_path: Path
) -> None:
    """What was not compared may hold it, unless something that matches was made of it, or along with it."""
    torch.manual_seed(0)
    model = made()
    with torch.no_grad(), fd.capture(model, tmp_path / "reference"):
        model(torch.randn(4, 6))
    reference = open_trace(tmp_path / "reference")
    kept = [tensor for tensor in reference if str(tensor.key) not in unrecorded]
    wrong = [str(tensor.key) in ("root.mul", "root") for tensor in kept]
    assert sum(wrong) == 2
    values = [tensor.values().read() + 0.3 * off for tensor, off in zip(kept, wrong, strict=True)]
    tensors = (Tensor(tensor.record, ArraySource(array)) for tensor, array in zip(kept, values, strict=True))
    first = located(reference, Trace("candidate", tuple(tensors))).first_divergence
    assert first is not None
    assert (first.key, first.between) == ("root.mul", (last_right, "root.mul"))


def test_the_first_tap_of_a_port_is_somewhere_behind_the_model_s_input(tmp_path: Path) -> None:
    reference = trace(model(), tmp_path / "r")
    tap = next(one for one in reference if str(one.key) == "layers.0")
    wrong = Tensor(Record(name="layers.0", role="tap"), ArraySource(tap.values().read() * np.float32(1.5)))
    found = located(reference, Trace("taps", (wrong,), order="seq")).first_divergence
    assert found is not None
    assert (found.origin, found.between) == ("unknown", ("root:in.0", "layers.0"))

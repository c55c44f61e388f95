"""A tap stands where the reference's operations lead from it to the next tap, whatever its values are near to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.pairing import pair_up
from firstdiff.readers import open_trace

torch = pytest.importorskip("torch")

Taps = dict[str, Any]


class Net(torch.nn.Module):  # type: ignore[misc]
    """A product, a norm, a ReLU and a product with a residual, all of one size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Linear(12, 12), torch.nn.LayerNorm(12)
        self.second, self.last = torch.nn.Linear(12, 12), torch.nn.Linear(12, 12)

    def forward(self, x: Any) -> Any:
        hidden = torch.relu(self.norm(self.first(x)))
        return self.last(torch.log(self.second(hidden).abs() + x * x + 1.0))


def pairs(folder: Path, taps: Callable[[Net, Any], Taps], net: type[Net] = Net) -> dict[str, str]:
    torch.manual_seed(0)
    model, x = net().eval(), torch.randn(3, 7, 12)
    with torch.no_grad():
        with fd.capture(model, folder / "reference"):
            model(x)
        with fd.record(folder / "candidate") as recording:
            for name, values in taps(model, x).items():
                recording.tap(name, np.asarray(values).transpose(1, 0, 2))
    result = pair_up(open_trace(folder / "reference"), open_trace(folder / "candidate"))
    sides = result.reference.tensors, result.candidate.tensors
    return {
        str(sides[1][match.candidate[0]].key): str(sides[0][match.reference[0]].key)
        for match in result.pairs
        if sides[0][match.reference[0]].key.role == "output"
    }


def end(model: Net, x: Any, hidden: Any) -> Any:
    return model.last(torch.log(model.second(hidden).abs() + x * x + 1.0))


def test_a_tap_with_other_values_stands_where_the_next_is_computed_from_it(tmp_path: Path) -> None:
    def without_norm(model: Net, x: Any) -> Taps:
        hidden = torch.relu(model.first(x))  # nearer to the product than to the norm
        return {"a": hidden, "b": model.second(hidden), "c": end(model, x, hidden)}

    assert pairs(tmp_path, without_norm) == {"a": "root.relu", "b": "second", "c": "last"}


def test_what_a_relu_leaves_alone_stands_behind_it(tmp_path: Path) -> None:
    def other_weight(model: Net, x: Any) -> Taps:
        hidden = torch.relu(model.norm(x @ model.first.weight))
        return {"a": hidden, "b": model.second(hidden)}

    assert pairs(tmp_path, other_weight)["a"] == "root.relu"


def test_a_value_before_the_relu_stands_before_it(tmp_path: Path) -> None:
    def other_weight(model: Net, x: Any) -> Taps:
        normed = model.norm(x @ model.first.weight)
        return {"a": normed, "b": model.second(torch.relu(normed))}

    assert pairs(tmp_path, other_weight) == {"a": "norm", "b": "second"}


def test_operations_that_the_port_does_in_one_are_passed(tmp_path: Path) -> None:
    def other_weight(model: Net, x: Any) -> Taps:
        product = x @ model.first.weight
        return {"a": product, "c": end(model, x, torch.relu(model.norm(product)))}

    assert pairs(tmp_path, other_weight) == {"a": "first", "c": "last"}


def test_a_value_that_is_used_as_another_stands_for_it(tmp_path: Path) -> None:
    def without_relu(model: Net, x: Any) -> Taps:
        normed = model.norm(model.first(x))  # the norm to the bit, given on in place of the ReLU
        return {"p": model.first(x), "a": normed, "b": model.second(normed), "c": end(model, x, normed)}

    assert pairs(tmp_path, without_relu) == {"p": "first", "a": "root.relu", "b": "second", "c": "last"}


def test_the_last_values_of_both_runs_are_a_pair_if_the_port_leaves_out_the_end(tmp_path: Path) -> None:
    class Pooler(Net):
        def forward(self, x: Any) -> Any:
            return torch.tanh(self.norm(self.first(x)))

    def without_tanh(model: Any, x: Any) -> Taps:
        return {"p": model.first(x), "a": model.norm(model.first(x))}

    assert pairs(tmp_path, without_tanh, Pooler) == {"p": "first", "a": "root"}


def test_a_port_that_records_its_end_keeps_the_value_before_it(tmp_path: Path) -> None:
    def healthy(model: Net, x: Any) -> Taps:
        normed = model.norm(model.first(x))
        return {"p": model.first(x), "a": normed, "b": torch.relu(normed), "c": end(model, x, torch.relu(normed))}

    assert pairs(tmp_path, healthy) == {"p": "first", "a": "norm", "b": "root.relu", "c": "last"}


class Stack(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d, self.e = (torch.nn.Linear(12, 12) for _ in range(5))

    def forward(self, x: Any) -> Any:
        hidden = self.d(torch.tanh(self.c(self.b(self.a(x)))))
        return self.e(hidden + torch.tanh(hidden))


def test_taps_named_as_in_the_reference_keep_their_names(tmp_path: Path) -> None:
    def other_weight(model: Stack, x: Any) -> Taps:
        found = {"a": model.a(x)}
        found["b"] = model.b(found["a"])
        found["c"] = model.c(found["b"])
        found["d"] = 1.5 * model.d(torch.tanh(found["c"]))
        return {**found, "e": model.e(found["d"])}

    found = pairs(tmp_path, other_weight, Stack)
    assert {tap: found.get(tap) for tap in "abcde"} == {tap: tap for tap in "abcde"}


class TwoBranches(torch.nn.Module):  # type: ignore[misc]
    """Two branches and their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = (torch.nn.Linear(12, size) for size in (12, 9, 5))
        self.joined = torch.nn.Linear(21, 12)

    def forward(self, x: Any) -> Any:
        one, two = self.first(x), self.second(x)
        return self.last(self.joined(torch.cat([one, two], dim=-1)))


def test_a_branch_that_the_port_computes_earlier_has_its_partner(tmp_path: Path) -> None:
    def second_branch_first(model: TwoBranches, x: Any) -> Taps:
        one, two = model.first(x), model.second(x) * 0.3 + 1.0
        joined = model.joined(torch.cat([one, two], dim=-1))
        return {"q": two, "p": one, "j": joined, "z": model.last(joined)}

    assert pairs(tmp_path, second_branch_first, TwoBranches) == {
        **{"p": "first", "q": "second", "j": "joined", "z": "last"}
    }


class TwoHeads(torch.nn.Module):  # type: ignore[misc]
    """A body and two heads, of which the port computes the second last."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.inner, self.norm = torch.nn.Linear(12, 12), torch.nn.Linear(12, 8), torch.nn.LayerNorm(8)
        self.scores, self.pooled, self.order = torch.nn.Linear(8, 30), torch.nn.Linear(12, 12), torch.nn.Linear(12, 5)

    def forward(self, x: Any) -> Any:
        hidden = self.body(x)
        pooled = torch.tanh(self.pooled(hidden))
        return self.scores(self.norm(torch.nn.functional.gelu(self.inner(hidden)))), self.order(pooled)


def test_the_end_of_a_head_has_its_partner_although_heads_come_in_another_order(tmp_path: Path) -> None:
    def without_activation(model: TwoHeads, x: Any) -> Taps:
        hidden = model.body(x)
        inner, pooled = model.inner(hidden), model.pooled(hidden)
        normed = model.norm(inner)
        first = {"a": hidden, "i": inner, "j": inner, "n": normed, "s": model.scores(normed)}
        return {**first, "p": pooled, "q": torch.tanh(pooled), "o": model.order(torch.tanh(pooled))}

    found = pairs(tmp_path, without_activation, TwoHeads)
    assert {tap: found.get(tap) for tap in "nso"} == {"n": "norm", "s": "scores", "o": "order"}


def test_a_value_used_as_another_stands_for_it_although_the_next_is_paired_by_name(tmp_path: Path) -> None:
    def without_norm(model: Net, x: Any) -> Taps:
        hidden = model.first(x)
        return {"h": hidden, "second": model.second(torch.relu(hidden)), "last": end(model, x, torch.relu(hidden))}

    assert pairs(tmp_path, without_norm)["h"] == "norm"


class Scaled(torch.nn.Module):  # type: ignore[misc]
    """An embedding that is scaled; the norm after it takes the scale away, a residual keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = torch.nn.Linear(12, 12), torch.nn.RMSNorm(12, eps=1e-12)
        self.inner, self.last = torch.nn.Linear(12, 12), torch.nn.Linear(12, 12)

    def forward(self, x: Any) -> Any:
        hidden = self.table(x) * 3.5
        return self.last(hidden + self.inner(self.norm(hidden)))


def test_a_scale_left_out_before_a_norm_is_where_the_residual_lacks_it(tmp_path: Path) -> None:
    def unscaled(model: Any, x: Any) -> Taps:
        hidden = model.table(x)
        normed = model.norm(hidden)
        total = hidden + model.inner(normed)
        return {"e": hidden, "n": normed, "i": model.inner(normed), "t": total, "o": model.last(total)}

    found = pairs(tmp_path, unscaled, Scaled)  # type: ignore[arg-type]
    assert found == {"e": "root.mul", "n": "norm", "i": "inner", "t": "root.add", "o": "last"}


def test_what_is_computed_from_a_tap_says_more_than_its_name(tmp_path: Path) -> None:
    def other_weight(model: Net, x: Any) -> Taps:
        hidden = torch.relu(model.norm(x @ model.first.weight))
        return {"first": hidden, "b": model.second(hidden)}

    assert pairs(tmp_path, other_weight) == {"first": "root.relu", "b": "second"}


def test_a_tap_that_holds_another_named_tensor_keeps_its_name(tmp_path: Path) -> None:
    def swapped(model: Net, x: Any) -> Taps:
        hidden = torch.relu(model.norm(model.first(x)))
        return {"norm": model.first(x), "first": model.norm(model.first(x)), "c": end(model, x, hidden)}

    found = pairs(tmp_path, swapped)
    assert (found["norm"], found["first"]) == ("norm", "first")


class Heads(Net):
    """Attention of two heads that are folded into the batch, as older models do."""

    def forward(self, x: Any) -> Any:
        return self.last(torch.log(self.mixed(self.first(x)).abs() + 1.0))

    def mixed(self, product: Any) -> Any:
        heads = product.reshape(3, 7, 2, 6).permute(0, 2, 1, 3).reshape(6, 7, 6)
        mixed = torch.bmm(torch.softmax(torch.bmm(heads, heads.transpose(1, 2)), -1), heads)
        return mixed.reshape(3, 2, 7, 6).permute(0, 2, 1, 3).reshape(3, 7, 12)


def test_heads_folded_into_the_batch_are_followed(tmp_path: Path) -> None:
    def other_weight(model: Any, x: Any) -> Taps:
        product = x @ model.first.weight
        return {"a": product, "c": model.last(torch.log(model.mixed(product).abs() + 1.0))}

    assert pairs(tmp_path, other_weight, Heads) == {"a": "first", "c": "last"}


class Cut(torch.nn.Module):  # type: ignore[misc]
    """A module that no table of operators knows."""

    def forward(self, x: Any) -> Any:
        return x[:, :-1]


class Shortened(Net):
    def __init__(self) -> None:
        super().__init__()
        self.cut = Cut()

    def forward(self, x: Any) -> Any:
        return self.last(self.cut(torch.relu(self.norm(self.first(x)))))


def test_modules_that_only_cut_are_followed(tmp_path: Path) -> None:
    def other_weight(model: Any, x: Any) -> Taps:
        product = x @ model.first.weight
        return {"a": product, "c": model.last(torch.relu(model.norm(product))[:, :-1])}

    assert pairs(tmp_path, other_weight, Shortened) == {"a": "first", "c": "last"}


class Masked(Net):
    def forward(self, x: Any) -> Any:
        kept = self.norm(self.first(x)) * (torch.arange(7) < 5).float()[:, None]
        return self.last(torch.softmax(self.second(kept), 1))


def test_a_mask_left_out_is_where_the_next_tap_lacks_it(tmp_path: Path) -> None:
    def unmasked(model: Any, x: Any) -> Taps:
        normed = model.norm(model.first(x))
        second = torch.softmax(model.second(normed), 1)
        return {"p": model.first(x), "a": normed, "b": second, "c": model.last(second)}

    assert pairs(tmp_path, unmasked, Masked) == {"p": "first", "a": "root.mul", "b": "root.softmax", "c": "last"}

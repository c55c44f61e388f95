from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch

from firstdiff.capturing import saved_calls
from firstdiff.capturing.saved_calls import SavedCalls

Pair = namedtuple("Pair", "a b")


def test_what_was_given_is_kept_as_it_was() -> None:
    x, state = torch.ones(2), {"cache": [torch.zeros(1)], "pair": Pair(torch.ones(1), 2), "n": [1]}
    saved = SavedCalls()
    saved.save((x,), {"state": state})
    x.add_(1)
    state["cache"][0].add_(1)  # type: ignore[index,union-attr]
    state["n"].append(2)  # type: ignore[union-attr]
    args, kwargs = saved.calls[0].fresh()
    assert torch.equal(args[0], torch.ones(2))
    assert torch.equal(kwargs["state"]["cache"][0], torch.zeros(1))
    assert kwargs["state"]["n"] == [1]
    assert isinstance(kwargs["state"]["pair"], Pair)


def test_a_kept_call_can_be_made_many_times() -> None:
    saved = SavedCalls()
    saved.save((torch.ones(1), OrderedDict(a=torch.ones(1))), {})
    for _ in range(2):
        (x, mapping), _ = saved.calls[0].fresh()
        assert torch.equal(x, torch.ones(1))
        assert type(mapping) is OrderedDict
        x.zero_()
        mapping["a"].zero_()


def test_tensors_come_off_the_graph_and_keep_asking_for_gradients() -> None:
    x = torch.ones(1, requires_grad=True) * 2
    saved = SavedCalls()
    saved.save((x,), {})
    (own,), _ = saved.calls[0].fresh()
    assert own.requires_grad
    assert own.grad_fn is None


def test_random_state_comes_back() -> None:
    saved = SavedCalls()
    saved.save((), {})
    first = torch.rand(3)
    outside = torch.get_rng_state()
    with saved.calls[0].circumstances():
        assert torch.equal(torch.rand(3), first)
    assert torch.equal(torch.get_rng_state(), outside)


def test_no_more_than_a_bound_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_calls, "MOST_BYTES", 100)
    saved = SavedCalls()
    for _ in range(3):
        saved.save((torch.zeros(20, dtype=torch.uint8),), {"big": torch.zeros(25, dtype=torch.uint8)})
    assert len(saved.calls) == 2
    assert saved.missed is not None
    assert "call 2 could not be kept" in saved.missed


def test_an_argument_that_cannot_be_copied_is_told() -> None:
    class Stubborn:
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("never")

    saved = SavedCalls()
    saved.save((Stubborn(),), {})
    saved.save((1,), {})
    assert saved.calls == []
    assert saved.missed == "the arguments of call 0 could not be kept (RuntimeError: never)"

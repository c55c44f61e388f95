"""Recurrent layers and cells against torch, as modules record them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from firstdiff.ops import NotReplayable, replay, residual
from tests.ops.captured import assert_reproduced, operation

WIDTH, HIDDEN = 5, 7


def seeded(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def initial(kind: type[nn.RNNBase], layers: int, directions: int, size: int) -> Any:
    hidden = seeded(layers * directions, 4, size)
    return (hidden, seeded(layers * directions, 4, HIDDEN) / 2) if kind is nn.LSTM else hidden


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("both_ways", [False, True])
def test_layers_are_torchs(tmp_path: Path, kind: type[nn.RNNBase], layers: int, both_ways: bool) -> None:
    torch.manual_seed(layers)
    module = kind(WIDTH, HIDDEN, layers, bidirectional=both_ways, batch_first=both_ways, bias=layers == 1)
    x = seeded(4, 4, WIDTH)
    assert_reproduced(operation(module, tmp_path / "a", x), kind.__name__.lower())
    assert_reproduced(operation(module, tmp_path / "a", x, initial(kind, layers, 1 + both_ways, HIDDEN)))
    assert_reproduced(operation(module, tmp_path / "a", x[0]))  # without a batch


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projections_and_relu_are_torchs(tmp_path: Path) -> None:
    module = nn.LSTM(WIDTH, HIDDEN, 2, bidirectional=True, proj_size=3)
    assert_reproduced(operation(module, tmp_path / "a", seeded(6, 4, WIDTH), initial(nn.LSTM, 2, 2, 3)))
    plain = nn.RNN(WIDTH, HIDDEN, nonlinearity="relu")
    assert_reproduced(operation(plain, tmp_path / "b", seeded(6, 4, WIDTH)), "rnn", nonlinearity="relu")


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("lengths", [[6, 4, 4, 1], [2, 4, 6, 1]])
def test_packed_sequences_are_torchs(tmp_path: Path, kind: type[nn.RNNBase], lengths: list[int]) -> None:
    module = kind(WIDTH, HIDDEN, 2, bidirectional=True)
    in_order = lengths == sorted(lengths, reverse=True)
    packed = nn.utils.rnn.pack_padded_sequence(seeded(6, 4, WIDTH), torch.tensor(lengths), enforce_sorted=in_order)
    assert_reproduced(operation(module, tmp_path / "a", packed))
    assert_reproduced(operation(module, tmp_path / "a", packed, initial(kind, 2, 2, HIDDEN)))


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells_are_torchs(tmp_path: Path, kind: type[nn.RNNCellBase]) -> None:
    module = kind(WIDTH, HIDDEN)
    hidden: Any = seeded(4, HIDDEN)
    assert_reproduced(operation(module, tmp_path / "a", seeded(4, WIDTH)))
    given = (hidden, hidden / 2) if kind is nn.LSTMCell else hidden
    assert_reproduced(operation(module, tmp_path / "a", seeded(4, WIDTH), hx=given))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounding_along_time_is_allowed_for(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    found = operation(nn.LSTM(16, 32, 3).to(dtype), tmp_path / "a", seeded(40, 2, 16).to(dtype))
    again = assert_reproduced(found, "lstm")
    # the same with everything rounded at each step is about as far from it
    held = again.plan.changed(held_in=found.outputs["0"].dtype.name).run()["0"].astype(found.outputs["0"].dtype)
    left = [residual(values, again.outputs["0"]) for values in (held, found.outputs["0"])]
    assert 0.5 < left[0] < 4 * left[1] < 16 * left[0]


def test_another_weight_does_not_give_the_output_again(tmp_path: Path) -> None:
    found = operation(nn.GRU(WIDTH, HIDDEN), tmp_path / "a", seeded(6, 4, WIDTH))
    found.params["weight_hh_l0"] = found.params["weight_hh_l0"] * np.float32(1.01)
    assert isinstance(found.reproduce(), NotReplayable)


def test_what_a_record_lacks_is_named(tmp_path: Path) -> None:
    found = operation(nn.LSTM(WIDTH, HIDDEN, 2), tmp_path / "a", seeded(6, 4, WIDTH))
    params = {name: values for name, values in found.params.items() if name != "bias_hh_l1"}
    again = replay(found.op, found.attrs, found.inputs, params, name="encoder")
    assert isinstance(again, NotReplayable)
    assert again.reason == "the bias_hh_l1 of encoder was not recorded"
    assert again.lacks_params


def test_dropout_between_layers_cannot_be_computed_again(tmp_path: Path) -> None:
    module = nn.LSTM(WIDTH, HIDDEN, 2, dropout=0.5).train()
    again = operation(module, tmp_path / "a", seeded(6, 4, WIDTH)).reproduce()
    assert isinstance(again, NotReplayable)
    assert "at random" in again.reason

"""Compare a browser's tensors with Python's, torch's and another run's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firstdiff.capturing.onnx_file import OnnxModel
from firstdiff.capturing.onnx_values import distance
from firstdiff.measure import measure_statistics
from firstdiff.readers import open_trace
from firstdiff.server.inference.wire import Against, OutputDistance, TableOut, TensorRow
from firstdiff.trace import Tensor, Trace
from firstdiff.workflows.onnx_export import values_by_scope
from firstdiff.workflows.onnx_pairing import ModulePairing

# in standard deviations of Python's tensor: what two honest runtimes differ by stays below
LIMIT = 1e-4
_OPTIMIZED = "optimized"


def build_table(model: OnnxModel, run: Path, python: Path | None, torch: Path | None, other: Path | None) -> TableOut:
    """Every tensor of a run with its statistics, and how far it is from the same tensor elsewhere."""
    tensors = [tensor for tensor in _values(open_trace(run)) if tensor.source is not None]
    beside = {name: _by_key(path) for name, path in (("python", python), ("other", other)) if path is not None}
    torch_rows = _torch_rows(torch, run, model) if torch is not None else {}
    rows = tuple(
        TensorRow(
            tensor.name,
            tensor.record.op,
            tensor.values().dtype.name,
            tensor.values().shape,
            measure_statistics(tensor.values()),
            _against(tensor, beside.get("python", {})),
            torch_rows.get(str(tensor.key)),
            _against(tensor, beside.get("other", {})),
        )
        for tensor in tensors
    )
    first = next((index for index, row in enumerate(rows) if row.python and not row.python.distance <= LIMIT), None)
    of_torch = next((index for index, row in enumerate(rows) if row.torch and not row.torch.distance <= LIMIT), None)
    return TableOut(rows, LIMIT, first, of_torch)


def output_distances(run: Path, python: Path) -> tuple[OutputDistance, ...]:
    """Return how far the outputs of the untouched model in the browser are from Python's unoptimised ones."""
    values = _by_key(python)
    found = []
    for tensor in open_trace(run):
        if tensor.record.slot == _OPTIMIZED and tensor.source is not None and tensor.name in values:
            reference = values[tensor.name].values().view()
            found.append(OutputDistance(tensor.name, distance(reference, tensor.source.view())))
    return tuple(found)


def _values(trace: Trace) -> list[Tensor]:
    return [tensor for tensor in trace if tensor.key.role == "output" and tensor.record.slot != _OPTIMIZED]


def _by_key(path: Path) -> dict[str, Tensor]:
    return {str(tensor.key): tensor for tensor in _values(open_trace(path)) if tensor.source is not None}


def _against(tensor: Tensor, others: Mapping[str, Tensor]) -> Against | None:
    other = others.get(str(tensor.key))
    if other is None:
        return None
    source = other.values()
    return Against(other.name, distance(source.view(), tensor.values().view()), measure_statistics(source))


def _torch_rows(torch: Path, run: Path, model: OnnxModel) -> dict[str, Against]:
    """Outputs of torch's modules by the browser's key for them, paired as `firstdiff onnx` pairs them."""
    reference, graph = open_trace(torch), open_trace(run)
    by_key = {tensor.key: tensor for tensor in reference if tensor.source is not None}
    rows: dict[str, Against] = {}
    for record, number in ModulePairing(reference, graph, values_by_scope(model)).records():
        tensor, value = by_key.get(record.key), graph.tensors[number]
        if tensor is None or record.role != "output" or value.source is None or str(value.key) in rows:
            continue
        apart = distance(tensor.values().view(), value.values().view())
        rows[str(value.key)] = Against(str(tensor.key), apart, measure_statistics(tensor.values()))
    return rows

"""Put a browser's tensors beside Python's, torch's and another run's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firstdiff.capturing.onnx_values import distance
from firstdiff.comparing import compare
from firstdiff.measure import measure_statistics
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison, Statistics
from firstdiff.server.inference.wire import Against, OutputDistance, TableOut, TensorRow
from firstdiff.trace import Tensor, Trace

# in standard deviations of Python's tensor: what two honest runtimes differ by stays below
LIMIT = 1e-4
_OPTIMIZED = "optimized"


def build_table(run: Path, python: Path | None, torch: Path | None, other: Path | None) -> TableOut:
    """Every tensor of a run with its statistics, and how far it is from the same tensor elsewhere."""
    tensors = [tensor for tensor in _values(open_trace(run)) if tensor.source is not None]
    beside = {name: _by_key(path) for name, path in (("python", python), ("other", other)) if path is not None}
    torch_rows = _torch_rows(torch, run) if torch is not None else {}
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
    return TableOut(rows, LIMIT, first)


def output_distances(run: Path, python: Path) -> tuple[OutputDistance, ...]:
    """How far the outputs of the untouched model in the browser are from Python's unoptimised ones."""
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


def _torch_rows(torch: Path, run: Path) -> dict[str, Against]:
    """Rows by the browser's key, paired as `firstdiff compare` pairs them; parameters are left out."""
    compared: Comparison = compare(torch, run, diagnose=False, allow_missing=True, allow_extra=True)
    rows: dict[str, Against] = {}
    for pair in compared.pairs:
        if pair.reference is None or pair.candidate is None or pair.metrics is None or pair.role == "param":
            continue
        said = pair.reference.statistics
        spread = said.std if said and said.std else None
        apart = float(pair.metrics.max_abs or 0.0) / (spread or 1.0)
        rows[pair.candidate.name] = Against(
            pair.reference.name, apart, said or Statistics(None, None, None, None, 0, 0)
        )
    return rows

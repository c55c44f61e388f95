"""Compare a browser's tensors with Python's, torch's and another run's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from firstdiff import dtypes
from firstdiff.capturing.onnx_file import OnnxModel
from firstdiff.capturing.onnx_values import distance
from firstdiff.comparing import compare
from firstdiff.errors import FirstdiffError
from firstdiff.measure import measure_statistics
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison
from firstdiff.server.inference.wire import Against, OutputDistance, TableOut, TensorRow
from firstdiff.trace import Tensor, Trace
from firstdiff.workflows.onnx_export import values_by_scope
from firstdiff.workflows.onnx_pairing import ModulePairing

# in standard deviations of Python's tensor: below it two runtimes are not compared any further
LIMIT = 1e-4
_OPTIMIZED = "optimized"


def build_table(model: OnnxModel, run: Path, python: Path | None, torch: Path | None, other: Path | None) -> TableOut:
    """Every tensor of a run with its statistics, and how far it is from the same tensor elsewhere."""
    tensors = {str(tensor.key): tensor for tensor in _values(open_trace(run)) if tensor.source is not None}
    of_python, first = _beside_run(tensors, python, run)
    of_other, _ = _beside_run(tensors, other, run)
    of_torch, first_torch = _beside_torch(tensors, torch, run, model)
    rows = tuple(
        TensorRow(
            tensor.name,
            tensor.record.op,
            tensor.values().dtype.name,
            tensor.values().shape,
            measure_statistics(tensor.values()),
            of_python.get(key),
            of_torch.get(key),
            of_other.get(key),
        )
        for key, tensor in tensors.items()
    )
    places = {key: index for index, key in enumerate(tensors)}
    return TableOut(rows, LIMIT, places.get(first or ""), places.get(first_torch or ""))


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


def _beside_run(
    tensors: Mapping[str, Tensor], path: Path | None, run: Path
) -> tuple[Mapping[str, Against], str | None]:
    """Tensors of another run of the same model by key, and the first that is wrong."""
    if path is None:
        return {}, None
    others = _by_key(path)
    found = {key: _against(others[key], tensor, others[key].name) for key, tensor in tensors.items() if key in others}
    return _judged(found, tensors, lambda: compare(path, run, diagnose=False))


def _beside_torch(
    tensors: Mapping[str, Tensor], torch: Path | None, run: Path, model: OnnxModel
) -> tuple[Mapping[str, Against], str | None]:
    """Outputs of torch's modules by the browser's key for them, paired as `firstdiff onnx` pairs them."""
    if torch is None:
        return {}, None
    reference, graph = open_trace(torch), open_trace(run)
    by_key = {tensor.key: tensor for tensor in reference if tensor.source is not None}
    found: dict[str, Against] = {}
    from_torch, from_browser = {}, {}
    for record, number in ModulePairing(reference, graph, values_by_scope(model)).records():
        tensor, key = by_key.get(record.key), str(graph.tensors[number].key)
        if tensor is None or record.role != "output" or key not in tensors or key in found:
            continue
        found[key] = _against(tensor, tensors[key], str(tensor.key))
        from_torch[key], from_browser[key] = tensor.values().view(), tensors[key].values().view()
    return _judged(found, tensors, lambda: compare(from_torch, from_browser, diagnose=False))


def _judged(
    found: Mapping[str, Against], tensors: Mapping[str, Tensor], compare_all: Callable[[], Comparison]
) -> tuple[Mapping[str, Against], str | None]:
    """Mark tensors that are wrong, and tell the first: distance alone does not tell rounding that grew.

    Where a mean cancels to almost nothing, healthy runs are many deviations apart; only then are whole runs compared.
    """
    far = [key for key in tensors if key in found and _is_far(found[key], tensors[key])]
    if not far:
        return found, None
    try:
        compared = compare_all()
    except FirstdiffError:  # a trace that is gone or unreadable: then distances are all there is
        return {key: replace(one, wrong=key in far) for key, one in found.items()}, far[0]
    wrong = {pair.candidate.name for pair in compared.pairs if pair.status == "mismatch" and pair.candidate is not None}
    marked = {key: replace(one, wrong=key in wrong) for key, one in found.items()}
    divergence = compared.first_divergence
    side = compared.pairs[divergence.pair].candidate if divergence is not None else None
    first = side.name if side is not None and side.name in marked else None
    return marked, first or next((key for key in tensors if key in wrong and key in marked), None)


def _is_far(one: Against, tensor: Tensor) -> bool:
    limit = LIMIT if dtypes.kind_of(tensor.values().dtype) in ("float", "complex") else 0.0
    return not one.distance <= limit


def _against(reference: Tensor, tensor: Tensor, name: str) -> Against:
    source = reference.values()
    return Against(name, distance(source.view(), tensor.values().view()), measure_statistics(source), wrong=False)

"""A bug report as one archive: the comparison, both traces' summaries, versions, logs, and the node that differs."""

from __future__ import annotations

import os
import platform
import zipfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from firstdiff import __version__
from firstdiff.errors import UsageError, WriteError
from firstdiff.json_text import plain, to_json
from firstdiff.reports.onnx_subgraph import NoSubgraphError, Subgraph, subgraph_of
from firstdiff.reports.text import render
from firstdiff.schema import Comparison, TensorInfo
from firstdiff.trace import Trace

_PACKAGES = ("numpy", "torch", "onnx", "onnxruntime", "onnxruntime-gpu", "onnxscript", "transformers", "ml_dtypes")
# shorter values are words such as "1" or "C.UTF-8", which tell nothing and stand everywhere
_LEAST_SECRET = 8
_MOST_LOG = 1 << 20
_DATE = (1980, 1, 1, 0, 0, 0)


def write_bundle(
    path: Path, comparison: Comparison, reference: Trace, candidate: Trace, logs: Sequence[Path] = ()
) -> list[str]:
    """Write the archive and return its files; values of environment variables are replaced by their names.

    logs: text files to add, of which the last MiB is taken
    """
    hidden = _hidden()
    files: dict[str, bytes] = {
        "comparison.json": _json(comparison, hidden),
        "comparison.txt": _redacted("".join(render(comparison)), hidden).encode(),
        "versions.json": _json(versions(), hidden),
        "reference.json": _json(_summary(reference, comparison, "reference"), hidden),
        "candidate.json": _json(_summary(candidate, comparison, "candidate"), hidden),
    }
    for name, log in _named(logs).items():
        files[f"logs/{name}"] = _redacted(_tail(log), hidden).encode()
    node, about = _node(comparison, reference, candidate)
    if node is not None:
        files |= {f"node/{name}": data for name, data in node.files().items()}
    files = {"README.md": _redacted(_readme(comparison, files, about), hidden).encode(), **files}
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                info = zipfile.ZipInfo(name, _DATE)
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, data)
    except OSError as error:
        raise WriteError(f"cannot write {path} ({error.strerror or error})") from error
    return list(files)


def versions() -> dict[str, Any]:
    """Return what computed: versions of packages, Python and the machine; nothing of its environment."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "firstdiff": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "packages": found,
    }


def _summary(trace: Trace, comparison: Comparison, side: str) -> dict[str, Any]:
    """Describe every tensor of a trace without its values."""
    statistics = {}
    for pair in comparison.pairs:
        info: TensorInfo | None = getattr(pair, side)
        if info is not None:
            statistics[info.name] = info.statistics
    tensors = []
    for tensor in trace:
        line = tensor.record.to_line()
        source = tensor.source
        line |= {"shape": list(source.shape), "dtype": source.dtype.name} if source else {"error": str(tensor.error)}
        tensors.append({**line, "statistics": statistics.get(str(tensor.key))})
    return {"header": dict(trace.header), "order": trace.order, "warnings": list(trace.warnings), "tensors": tensors}


def _node(comparison: Comparison, reference: Trace, candidate: Trace) -> tuple[Subgraph | None, str]:
    first = comparison.first_divergence
    if first is None:
        return None, "Nothing diverges, so there is no node to run."
    pair = comparison.pairs[first.pair]
    if pair.candidate is None:
        return None, f"{pair.key} is missing in the candidate, so there is no node to run."
    try:
        found = subgraph_of(candidate, pair.candidate.name, _reference_values(reference, pair.reference))
    except NoSubgraphError as error:
        return None, f"There is no node to run: {error}."
    return found, f"`node/` holds the first divergence as a model (`cd node && python run.py`): {found.text}."


def _reference_values(reference: Trace, info: TensorInfo | None) -> np.ndarray | None:
    return None if info is None else reference[info.keys[0] if info.keys else info.name].values().read()


def _readme(comparison: Comparison, files: Mapping[str, bytes], about: str) -> str:
    first = comparison.first_divergence
    lines = ["# Bug report", "", f"Verdict: {comparison.verdict}."]
    lines += [f"First divergence: {first.key}.", ""] if first else [""]
    lines += [
        about,
        "",
        f"Values of environment variables, of {_LEAST_SECRET} characters or more, were replaced by `<NAME>`.",
        "",
    ]
    meaning = {
        "comparison.json": "the comparison with its settings, for programs",
        "comparison.txt": "the same to read",
        "versions.json": "packages and machine",
        "reference.json": "the reference's tensors: names, shapes, operations, statistics",
        "candidate.json": "the candidate's",
        "node/node.onnx": "one node, its weights as initializers",
        "node/inputs.npz": "what the candidate gave it",
        "node/expected.npz": "what it gives by itself, and what candidate and reference recorded",
        "node/run.py": "runs it and prints how far each is",
    }
    return "\n".join([*lines, *(f"- `{name}`: {meaning.get(name, 'a log')}" for name in files), ""])


def _named(logs: Sequence[Path]) -> dict[str, Path]:
    """Name logs by their files; the second of a name gets a number."""
    found: dict[str, Path] = {}
    for log in logs:
        if not log.is_file():
            raise UsageError(f"there is no log {log}; give files to --log")
        name, number = log.name, 2
        while name in found:
            name, number = f"{log.stem}-{number}{log.suffix}", number + 1
        found[name] = log
    return found


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _MOST_LOG, 0))
        return file.read().decode("utf-8", errors="replace")


def _hidden() -> dict[str, str]:
    """List the environment's values by what stands in their place, the longest first."""
    values = {value: f"<{name}>" for name, value in os.environ.items() if len(value) >= _LEAST_SECRET}
    return dict(sorted(values.items(), key=lambda item: -len(item[0])))


def _redacted(text: str, hidden: Mapping[str, str]) -> str:
    for value, name in hidden.items():
        text = text.replace(value, name)
    return text


def _json(value: Any, hidden: Mapping[str, str]) -> bytes:
    return (to_json(_walked(plain(value), hidden), indent=1) + "\n").encode()


def _walked(value: Any, hidden: Mapping[str, str]) -> Any:
    """Redact texts, but no names of fields."""
    if isinstance(value, str):
        return _redacted(value, hidden)
    if isinstance(value, Mapping):
        return {key: _walked(item, hidden) for key, item in value.items()}
    return [_walked(item, hidden) for item in value] if isinstance(value, list | tuple) else value

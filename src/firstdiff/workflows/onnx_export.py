"""Export a torch model to ONNX, and map its modules to values of the graph."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firstdiff.capturing.onnx_file import OnnxModel, need_onnx
from firstdiff.capturing.onnx_graph import is_noted, scopes_of
from firstdiff.errors import UsageError

if TYPE_CHECKING:
    import torch

_ESCAPES = re.compile(r"\x1b\[\d*m")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class ModuleValues:
    """Names of graph values by module; a later call of a module is `name@1`.

    outputs: what a module gives, in order; "" where it is no tensor
    inputs: what it is given, as far as that is known
    program: the exported program, whose nodes are called as the values
    unsure: modules whose value goes into a node that a converter made, which may have taken the rest of the module
    """

    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    program: Any = None
    unsure: frozenset[str] = frozenset()


def export_model(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    path: Path,
    opset: int | None = None,
    *,
    optimize: bool = False,
) -> ModuleValues:
    """Write a model as ONNX, each module's results kept as values; UsageError says why it cannot be exported.

    optimize: fold constants and leave out what does nothing, as torch does unless it is told not to
    """
    need_onnx()

    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "exporting needs the package onnxscript, which is not there; pip install onnxscript"
        ) from error
    try:
        return _export(model, args, kwargs, path, opset, optimize=optimize)
    except UsageError:
        raise
    except Exception as error:  # torch has many ways to refuse
        lines = (line.strip() for line in str(error).splitlines())
        reason = _ESCAPES.sub("", next((line for line in lines if line), "no reason given"))
        raise UsageError(
            f"torch cannot export {type(model).__name__} to ONNX ({type(error).__name__}: {reason[:300]}); "
            "export it yourself and give the file with --onnx"
        ) from error


def _export(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], path: Path, opset: int | None, *, optimize: bool
) -> ModuleValues:
    import torch

    with _quietly(), torch.no_grad():
        program = _program_of(model, args, kwargs)
        inputs = {entry.fqn: _names(entry.signature.inputs) for entry in _signed(program)}
        for entry in _signed(program):
            entry.signature.inputs.clear()  # decompositions rename them, and the exporter checks them
        _drop_unused(program)
        given = {} if opset is None else {"opset_version": opset}
        while True:
            try:
                exported: Any = torch.onnx.export(program, dynamo=True, optimize=optimize, verbose=False, **given)  # type: ignore[arg-type]
                break
            except Exception as error:
                if not _drop_signatures(program, error):
                    raise
        written = exported.model.opset_imports.get("")
        if opset is not None and written != opset:
            _export_by_tracing(model, args, kwargs, path, opset, written)
            return ModuleValues()  # the names of its nodes tell the modules
        exported.save(str(path), external_data=True)
    program = exported.exported_program or program
    outputs = {entry.fqn: _names(entry.signature.outputs) for entry in _signed(program)}
    return ModuleValues(outputs, inputs, program)


def _export_by_tracing(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], path: Path, opset: int, written: int
) -> None:
    """Write a model with torch's older exporter, which knows opsets that the newer one cannot convert to."""
    import torch

    try:
        torch.onnx.export(model, args, str(path), kwargs=kwargs, dynamo=False, opset_version=opset)
    except Exception as error:  # torch has many ways to refuse
        raise UsageError(
            f"torch exports this model to opset {written}, not {opset}; "
            "export it yourself and give the file with --onnx"
        ) from error


def _program_of(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The exported program of a model, with the signatures of its modules where torch can keep them."""
    import torch

    names = tuple(dict.fromkeys(name for name, module in model.named_modules() if name and _is_called(module)))
    try:
        return torch.export.export(model, args, kwargs, preserve_module_call_signature=names, strict=False)
    except Exception:  # torch has many ways to refuse
        return torch.export.export(model, args, kwargs, strict=False)


def _drop_unused(program: Any) -> None:
    """Drop signatures with results that nothing uses, as of a pooler that is not returned: exporters delete those."""
    reached: set[Any] = set()
    waiting = [node for node in program.graph.nodes if node.op == "output"]
    while waiting:
        node = waiting.pop()
        new = [source for source in node.all_input_nodes if source not in reached]
        reached.update(new)
        waiting += new
    unused = {node.name for node in program.graph.nodes if node not in reached}
    for entry in _signed(program):
        if unused & set(_names(entry.signature.outputs)):
            entry.signature = None


def _drop_signatures(program: Any, error: Exception) -> bool:
    """Drop the signatures that an error is about, else all of them; False if there is none to drop.

    The results of modules that run under autocast, as rotary embeddings do, vanish when operators are decomposed.
    What is dropped here is told by the metadata of the exported nodes instead.
    """
    signed = list(_signed(program))
    named = set(_WORD.findall(f"{error} {error.__cause__}"))
    # an error may be about what a result was converted from
    before = {node.name: {source.name for source in node.all_input_nodes} for node in program.graph.nodes}
    about = []
    for entry in signed:
        outputs = set(_names(entry.signature.outputs))
        if named & outputs.union(*(before.get(name, set()) for name in outputs)):
            about.append(entry)
    for entry in about or signed:
        entry.signature = None
    return bool(signed)


def values_by_scope(model: OnnxModel) -> ModuleValues:
    """The values that leave each module, by what an exporter noted or put into names; the last of each module."""
    users: dict[str, list[tuple[str, ...]]] = {}
    into_made: set[str] = set()
    scopes = [scopes_of(node) for node in model.proto.graph.node]
    for node, scope in zip(model.proto.graph.node, scopes, strict=True):
        for name in node.input:
            users.setdefault(name, []).append(scope)
        if not is_noted(node):
            into_made.update(node.input)
    for output in model.proto.graph.output:
        users.setdefault(output.name, []).append(())
    found: dict[str, tuple[str, ...]] = {}
    for node, scope in zip(model.proto.graph.node, scopes, strict=True):
        for module in scope:
            leaving = [name for name in node.output if any(module not in user for user in users.get(name, ()))]
            if leaving:
                found[module] = (leaving[0],)
    return ModuleValues(found, unsure=frozenset(module for module, (name,) in found.items() if name in into_made))


def program_values(
    program: Any, args: tuple[Any, ...], kwargs: dict[str, Any], wanted: set[str]
) -> dict[str, np.ndarray]:
    """Results of the nodes of an exported program, by name."""
    import torch

    held: dict[str, np.ndarray] = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if n.name in wanted and isinstance(result, torch.Tensor):
                held[n.name] = result.detach().cpu().numpy().copy()
            return result

    with _quietly(), torch.no_grad():
        module = program.module()
        flat, _ = torch.utils._pytree.tree_flatten((args, kwargs))
        Recorder(module).run(*flat, enable_io_processing=False)
    return held


def _is_called(module: Any) -> bool:
    import torch

    containers = (torch.nn.ModuleList, torch.nn.ModuleDict)
    return not isinstance(module, containers)


def _signed(program: Any) -> Iterator[Any]:
    return (entry for entry in program.module_call_graph if entry.fqn and entry.signature is not None)


def _names(arguments: Any) -> tuple[str, ...]:
    return tuple(getattr(item, "name", "") or "" for item in arguments)


@contextmanager
def _quietly() -> Iterator[None]:
    """Exporters log every step, warn about packages that they could use, and print whole graphs when they give up."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

"""Build a model from `module:function`, and read its inputs from a file."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from firstdiff.errors import ReadError, UsageError, did_you_mean

if TYPE_CHECKING:
    import torch

_POSITION = re.compile(r"arg(\d+)")


class Call(NamedTuple):
    """A model and what to call it with."""

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def build(factory: str, inputs: Path | None, *, seed: int | None = None, train: bool = False) -> Call:
    """Call `module:function` and read the inputs.

    factory: the function gives a model, or a model and its inputs (a tensor, a tuple, or a dict of keywords)
    inputs: an .npz whose arrays are named as the arguments of the model, or arg0, arg1, …; it takes precedence
    seed: given to torch before the model is built
    train: leave the model in the mode the function gave it; otherwise it is put into evaluation
    """
    import torch

    if seed is not None:
        torch.manual_seed(seed)
    built = _function(factory)()
    model, own = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"{factory} gave {type(model).__name__}; it should give a torch.nn.Module")
    if not train:
        model.eval()
    if inputs is None and own is None:
        raise UsageError(
            f"there is nothing to call the model with; give --input, or let {factory} give (model, inputs)"
        )
    args, kwargs = _arguments(own) if inputs is None else _read_inputs(inputs)
    _check(model, args, kwargs, str(inputs) if inputs is not None else factory)
    return Call(model, args, kwargs)


def called_without_gradients(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import torch

    with torch.no_grad():
        return model(*args, **kwargs)


def _function(text: str) -> Callable[[], Any]:
    module_name, colon, name = text.partition(":")
    if not (module_name and colon and name):
        raise UsageError(f"{text!r} names no function; write module:function, such as my_package.models:tiny")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as python -m does; the function may import more when it is called
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None:  # packages that import lazily raise it themselves, with words of their own
            raise UsageError(f"{module_name} cannot be imported ({error})") from error
        if not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UsageError(f"{module_name} cannot be imported: it needs {error.name}, which is not there") from error
        raise UsageError(f"there is no module {module_name} in {Path.cwd()} or among the installed packages") from error
    except Exception as error:
        # a stranger's module may throw anything while it is imported
        raise UsageError(f"{module_name} cannot be imported ({type(error).__name__}: {error})") from error
    found = getattr(module, name, None)
    if found is None:
        raise UsageError(f"{module_name} has no {name}{did_you_mean(name, vars(module))}")
    if not callable(found):
        raise UsageError(f"{text} is {type(found).__name__}; it should be a function that gives a model")
    return found  # type: ignore[no-any-return]


def _arguments(own: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(own, Mapping):
        return (), dict(own)
    return (tuple(own) if isinstance(own, tuple | list) else (own,)), {}


def _read_inputs(path: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch

    try:
        held = np.load(path, allow_pickle=False)
        if isinstance(held, np.ndarray):
            raise ReadError("holds one array without a name; save with np.savez, by the names of arguments", str(path))
        with held:
            arrays = {name: torch.from_numpy(held[name]) for name in held.files}
    except (OSError, ValueError, TypeError, BadZipFile, EOFError) as error:
        raise ReadError(f"cannot be read as .npz ({error})", str(path)) from error
    by_position = {int(found[1]): name for name in arrays if (found := _POSITION.fullmatch(name))}
    if sorted(by_position) != list(range(len(by_position))):
        raise ReadError(
            f"has {', '.join(sorted(by_position.values()))}; positions start at arg0 without gaps", str(path)
        )
    args = tuple(arrays.pop(by_position[number]) for number in range(len(by_position)))
    return args, arrays


def _check(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> None:
    """Names that the model does not take are told apart from errors inside it."""
    signature = inspect.signature(model.forward)
    takes = [
        name for name, kind in signature.parameters.items() if kind.kind not in (kind.VAR_KEYWORD, kind.VAR_POSITIONAL)
    ]
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        where = f"{source}: {type(model).__name__}.forward"
        for name in kwargs:
            if name not in takes:
                raise UsageError(
                    f"{where} takes no {name}{did_you_mean(name, takes)}; it takes {', '.join(takes)}"
                ) from error
        raise UsageError(f"{where} cannot be called so ({error}); it takes {', '.join(takes)}") from error

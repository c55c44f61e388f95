"""Kernels as machine code: made by numba once for each pair of types, kept on disk, and loaded without numba.

To import numba takes longer than to compare a gigabyte; llvmlite alone links an object file in milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from struct import pack_into
from threading import Lock
from typing import Any, Literal, final

import llvmlite  # type: ignore[import-untyped]
import numpy as np
from llvmlite import binding

from firstdiff.settings import cache_folder

Kernel = Literal["measure", "count"]

# what the kernels take their constants from
_CONSTANTS = ("cells.py", "direction.py", "hull.py", "plan.py", "sketch.py")
_DIGEST_SIZE = 32
ENTRY = "firstdiff_entry"
_lock = Lock()
_loaded: dict[tuple[str, ...], Native] = {}


def native(kernel: Kernel, arguments: tuple[Any, ...]) -> Native:
    """The code of a kernel for arrays of these types; the first two arguments tell."""
    key = kernel, arguments[0].dtype.str, arguments[1].dtype.str
    found = _loaded.get(key)
    if found is None:
        with _lock:
            found = _loaded.get(key)
            if found is None:
                found = _loaded[key] = Native(_read(_file(key)) or _make(kernel, arguments, _file(key)))
    return found


def is_made(kernel: Kernel, *sides: np.dtype) -> bool:
    """Whether the code for sides of these types, as the compiler takes them, lies ready."""
    key = (kernel, *(side.str for side in sides))
    return key in _loaded or _file(key).exists()


@final
class Native:
    """A function of machine code, which runs without the interpreter's lock."""

    def __init__(self, code: bytes) -> None:
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target())
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self._call = call(self._engine.get_function_address(ENTRY))

    def __call__(self, passed: Passed) -> int:
        """The whole number it gives, if it gives one."""
        result = ctypes.c_int64()
        status = self._call(ctypes.addressof(result), passed.address)
        if status != 0:
            raise RuntimeError(f"a kernel ended with status {status}")
        return result.value


@final
class Passed:
    """Arguments where machine code finds them; the arrays must outlive the call."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        values = _flat(arguments)
        self._kinds = "".join("d" if type(value) is float else "q" for value in values)
        self._memory = (ctypes.c_int64 * len(values))()
        self.address = ctypes.addressof(self._memory)
        pack_into(self._kinds, self._memory, 0, *values)

    def put(self, arguments: tuple[Any, ...]) -> None:
        """Others of the same types in place of the first ones."""
        values = _flat(arguments)
        pack_into(self._kinds[: len(values)], self._memory, 0, *values)


def _flat(arguments: tuple[Any, ...]) -> list[int | float]:
    """As numba passes them: an array is who owns it (nobody), its size, width, address, shape and strides."""
    flat: list[int | float] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            flat += (0, 0, argument.size, argument.itemsize, argument.__array_interface__["data"][0])
            flat += argument.shape
            flat += argument.strides
        elif isinstance(argument, tuple):
            flat += _flat(argument)
        else:
            flat.append(argument)
    return flat


def _make(kernel: Kernel, arguments: tuple[Any, ...], file: Path) -> bytes:
    import logging

    logging.getLogger("firstdiff").warning("compiling %s, which takes some seconds once", file.stem)
    from firstdiff.measure import kernel_numba
    from firstdiff.measure.kernel_lanes import object_code

    functions: dict[Kernel, Callable[..., Any]] = {"measure": kernel_numba.measure, "count": kernel_numba.count}
    code = object_code(functions[kernel], arguments, ENTRY)
    _keep(file, code)
    return code


def _keep(file: Path, content: bytes) -> None:
    """Write a file at once or not at all; without a place for it, the code is made anew by every process."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(descriptor, "wb") as out:
            out.write(sha256(content).digest() + content)
        Path(part).replace(file)
    except OSError:
        return


def _read(file: Path) -> bytes | None:
    """What was kept; a file that is damaged counts as none, for the linker would end the process."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    content = data[_DIGEST_SIZE:]
    return content if sha256(content).digest() == data[:_DIGEST_SIZE] else None


def _file(key: tuple[str, ...]) -> Path:
    types = "-".join(side.replace("<", "").replace("|", "") for side in key[1:])
    return cache_folder() / "kernels" / _edition() / f"{key[0]}-{types}.o"


@cache
def _edition() -> str:
    """Stands for all that the code depends on: the sources, the compiler and the processor."""
    folder = Path(__file__).parent
    sources = [*sorted(folder.glob("kernel_*.py")), *(folder / name for name in _CONSTANTS)]
    digest = sha256(b"".join(source.read_bytes() for source in sources))
    processor = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    digest.update(f"{llvmlite.__version__} {binding.get_process_triple()} {processor}".encode())
    return digest.hexdigest()[:16]


@cache
def _target() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine()

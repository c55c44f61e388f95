"""Pickles that would run code, and files to put them into."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

CANARY = "firstdiff_canary"
CANARY_CODE = """\
import pathlib
pathlib.Path(__file__).with_name("imported").touch()

def run(path, *rest, **more):
    pathlib.Path(path).touch()

class Made:
    def __new__(cls, path="", *rest, **more):
        if path:
            run(path)
        return object.__new__(cls)

class Filled:
    def __setstate__(self, path):
        run(path)
"""


class Payload(NamedTuple):
    """A piece of a pickle that pushes one value, and the name it asks for. `{path}` is what it would create."""

    asks_for: str
    code: bytes

    def aimed_at(self, path: Path) -> Payload:
        return self._replace(code=self.code.replace(text("{path}"), text(str(path))))


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + len(raw).to_bytes(4, "little") + raw


def named(module: str, name: str) -> bytes:
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def reduced(module: str, name: str, *args: bytes) -> bytes:
    return named(module, name) + b"(" + b"".join(args) + b"tR"


_TARGET = text("{path}")

# each runs, or imports, as soon as Python's own unpickler reads it
LIVE = {
    "reduce": Payload(f"{CANARY}.run", reduced(CANARY, "run", _TARGET)),
    "stack_global": Payload(f"{CANARY}.run", text(CANARY) + text("run") + b"\x93(" + _TARGET + b"tR"),
    "inst": Payload(f"{CANARY}.run", b"(" + _TARGET + b"i" + CANARY.encode() + b"\nrun\n"),
    "obj": Payload(f"{CANARY}.Made", b"(" + named(CANARY, "Made") + _TARGET + b"o"),
    "newobj": Payload(f"{CANARY}.Made", named(CANARY, "Made") + _TARGET + b"\x85\x81"),
    "newobj_ex": Payload(f"{CANARY}.Made", named(CANARY, "Made") + _TARGET + b"\x85}" + text("a") + b"Ns\x92"),
    "build": Payload(f"{CANARY}.Filled", named(CANARY, "Filled") + b")\x81" + _TARGET + b"b"),
    "old_object": Payload(
        f"{CANARY}.Filled",
        reduced("copy_reg", "_reconstructor", named(CANARY, "Filled"), named("__builtin__", "object"), b"N")
        + _TARGET
        + b"b",
    ),
    "through_getattr": Payload(
        "builtins.getattr",
        reduced("builtins", "getattr", reduced("builtins", "__import__", text(CANARY)), text("run"))
        + b"("
        + _TARGET
        + b"tR",
    ),
    "through_memo": Payload(f"{CANARY}.run", named(CANARY, "run") + b"q\xff0h\xff(" + _TARGET + b"tR"),
    "import_module": Payload("importlib.import_module", reduced("importlib", "import_module", text(CANARY))),
    "name_alone": Payload(f"{CANARY}.run", named(CANARY, "run")),
    "args_of_a_stranger": Payload("builtins.print", reduced("builtins", "print", reduced(CANARY, "run", _TARGET))),
    "dotted_name": Payload(f"{CANARY}.Made.__new__", b"\x80\x04" + text(CANARY) + text("Made.__new__") + b"\x93"),
}

# well-known ways to more: none of them may be looked up, let alone called
GADGETS = [
    "os.system",
    "posix.system",
    "nt.system",
    "subprocess.Popen",
    "builtins.eval",
    "builtins.exec",
    "builtins.compile",
    "builtins.open",
    "builtins.getattr",
    "builtins.__import__",
    "builtins.breakpoint",
    "builtins.type",
    "pickle.loads",
    "_pickle.loads",
    "marshal.loads",
    "types.CodeType",
    "types.FunctionType",
    "functools.partial",
    "functools.reduce",
    "operator.attrgetter",
    "operator.methodcaller",
    "itertools.starmap",
    "runpy._run_code",
    "runpy.run_path",
    "pty.spawn",
    "platform.popen",
    "webbrowser.open",
    "ctypes.CDLL",
    "socket.create_connection",
    "urllib.request.urlopen",
    "shutil.rmtree",
    "asyncio.subprocess.create_subprocess_shell",
    "code.InteractiveInterpreter",
    "pdb.run",
    "timeit.timeit",
    "importlib.import_module",
    "copyreg.__newobj__",
    "numpy.load",
    "numpy.testing._private.utils.runstring",
    "numpy.f2py.diagnose.run_command",
    "torch.load",
    "torch.hub.load",
    "torch.hub._load_local",
    "torch.jit.load",
    "torch.utils.collect_env.run",
    "torch.serialization.load",
    "torch._inductor.codecache.compile_file",
    "torch.distributed.rpc.rpc_sync",
    "torch.nn.Module",
    "__main__.Anything",
]


def torch_file(pickle: bytes, storages: Mapping[str, bytes] | None = None, *, byteorder: bytes = b"little") -> bytes:
    """A zip as torch.save lays it out."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickle)
        archive.writestr("archive/byteorder", byteorder)
        for key, data in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", data)
        archive.writestr("archive/version", b"3\n")
    return out.getvalue()


def number(value: int) -> bytes:
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def numbers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def storage(key: str = "0", cls: str = "FloatStorage", count: int = 3) -> bytes:
    return b"(" + text("storage") + named("torch", cls) + text(key) + text("cpu") + number(count) + b"tQ"


def tensor(
    shape: tuple[int, ...] = (3,),
    strides: tuple[int, ...] = (1,),
    offset: int = 0,
    *,
    of: bytes | None = None,
    hooks: bytes = b"N",
) -> bytes:
    """The piece of a pickle that rebuilds a tensor, by default three floats of storage 0."""
    where = (storage() if of is None else of, number(offset), numbers(shape), numbers(strides))
    return reduced("torch._utils", "_rebuild_tensor_v2", *where, b"\x89", hooks)


def pickled(*pieces: bytes) -> bytes:
    return b"\x80\x02" + b"".join(pieces) + b"."


def table(**items: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"

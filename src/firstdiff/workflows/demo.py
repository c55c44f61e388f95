"""The two traces that come with the package: one small language model, the second run of it with a planted bug."""

from __future__ import annotations

from pathlib import Path

from firstdiff.errors import UsageError, WriteError

_FOLDER = Path(__file__).parent.parent / "demo"
NAME = "Demo: a small GPT with a planted bug"


def has_demo() -> bool:
    return all(path.is_file() for path in _paths())


def demo_traces() -> tuple[Path, Path]:
    """Reference and candidate, as archives."""
    if not has_demo():
        raise UsageError("the demo's traces are not part of this installation; install firstdiff again")
    return _paths()


def unpack_demo(folder: Path) -> tuple[Path, Path]:
    """Write them as `reference.trace` and `candidate.trace` into a folder, to be looked into with other tools."""
    import zipfile

    reference, candidate = demo_traces()
    targets = folder / "reference.trace", folder / "candidate.trace"
    try:
        for archive, target in zip((reference, candidate), targets, strict=True):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(target)
    except OSError as error:
        raise WriteError(f"cannot write the demo to {folder} ({error.strerror or error})") from error
    return targets


def _paths() -> tuple[Path, Path]:
    return _FOLDER / "reference.zip", _FOLDER / "candidate.zip"

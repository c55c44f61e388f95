"""The demos that come with the package: two traces each, the second with a planted bug."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from firstdiff.errors import UsageError, WriteError

_FOLDER = Path(__file__).parent.parent / "demo"


@dataclass(frozen=True, slots=True)
class Demo:
    """Two runs to look at before one's own model is at hand."""

    name: str
    title: str

    @property
    def traces(self) -> tuple[Path, Path]:
        """Reference and candidate, as archives."""
        return _FOLDER / self.name / "reference.zip", _FOLDER / self.name / "candidate.zip"


DEMOS = (
    Demo("gpt", "Demo: a small GPT with a planted bug"),
    Demo("diffusion", "Demo: a text sampler that writes garbage in the browser"),
)


def find_demo(name: str) -> Demo:
    """Return the demo of that name, whose traces are there."""
    demo = next((one for one in DEMOS if one.name == name), None)
    if demo is None:
        raise UsageError(f"there is no demo {name!r}; there are {', '.join(one.name for one in DEMOS)}")
    if not all(path.is_file() for path in demo.traces):
        raise UsageError(f"the traces of the demo {name} are not part of this installation; install firstdiff again")
    return demo


def unpack_demo(folder: Path, name: str = "gpt") -> tuple[Path, Path]:
    """Write both traces as `reference.trace` and `candidate.trace` into a folder, to look into with other tools."""
    import zipfile

    reference, candidate = find_demo(name).traces
    targets = folder / "reference.trace", folder / "candidate.trace"
    try:
        for archive, target in zip((reference, candidate), targets, strict=True):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(target)
    except OSError as error:
        raise WriteError(f"cannot write the demo to {folder} ({error.strerror or error})") from error
    return targets

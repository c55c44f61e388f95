"""Wait for the files of a candidate to change, as `validate --watch` does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import final

from firstdiff.workflows.candidate_files import candidate_files
from firstdiff.workflows.project import Project

_INTERVAL_S = 0.5


@final
class CandidateWatch:
    """Knows the candidate's files as they were when it last looked."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._seen = self._state()

    def wait(self) -> list[str]:
        """Return which files changed, once they stay as they are: an editor or a linker may be at work still."""
        while True:
            time.sleep(_INTERVAL_S)
            now = self._state()
            if now == self._seen:
                continue
            before = self._seen
            while True:
                time.sleep(_INTERVAL_S)
                later = self._state()
                if later == now:
                    break
                now = later
            self._seen = now
            changed = [path for path in {**before, **now} if before.get(path) != now.get(path)]
            return sorted(self._project.shown(path) for path in changed)

    def _state(self) -> Mapping[Path, tuple[int, int]]:
        found = {}
        for path in candidate_files(self._project):
            try:
                state = path.stat()
            except OSError:  # it is being replaced
                continue
            found[path] = (state.st_mtime_ns, state.st_size)
        return found

"""Errors shown to users: each message is one sentence that says what was found and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class FirstdiffError(Exception):
    """Base of every error a user can cause and mend."""


class UsageError(FirstdiffError):
    """The call itself makes no sense: an option, a recipe, a name that is not there."""


class ReadError(FirstdiffError):
    """Something could not be read; `label` names the file, or the member of an archive.

    Raise it with the bare finding deep inside a reader; the boundary that knows the name adds it with `named`.
    """

    def __init__(self, finding: str, label: str | None = None) -> None:
        super().__init__(finding if label is None else f"{label}: {finding}")
        self.finding = finding
        self.label = label

    def named(self, label: str) -> ReadError:
        """The same error, carrying the name of the file (an error that has one keeps it)."""
        return self if self.label is not None else type(self)(self.finding, label)


class RefusedError(ReadError):
    """Reading on would have run code, left the archive, or filled the disk."""


class WriteError(FirstdiffError):
    """A trace or a report could not be written."""


class SettingsError(FirstdiffError):
    """A settings file or an environment variable has a value that makes no sense."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean a, b?)` for the names nearest to a word that was not found, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=3, cutoff=0.6)
    return f" (did you mean {', '.join(near)}?)" if near else ""

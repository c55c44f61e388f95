"""Run a project's commands: words without a shell, live output, a time limit, nothing left behind."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from firstdiff.errors import FirstdiffError, did_you_mean

Side = Literal["reference", "candidate"]
OnLine = Callable[[str], None]

WINDOWS = sys.platform == "win32"
_PLACEHOLDER = re.compile(r"\{input\.([\w-]+)\}")
_BRACES = re.compile(r"\{[^{}]*\}")
_TERMINATE_S = 3.0
_KEPT_LINES = 5
_LONGEST_LINE = 2000
_MARKS = " ~^"  # what Python puts under a line of a traceback
_running: set[subprocess.Popen[str]] = set()


class CommandError(FirstdiffError):
    """A command that could not be started, failed, or took too long.

    started: False where it never ran
    """

    def __init__(self, sentence: str, *, started: bool = True) -> None:
        super().__init__(sentence)
        self.started = started


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One side's command, as words with `{input.NAME}`, `{input}` and `{trace}` in them."""

    side: Side
    words: tuple[str, ...]
    folder: Path
    timeout: float
    environment: Mapping[str, str] = field(default_factory=dict)
    watch: tuple[str, ...] = ()


def split_command(text: str, *, windows: bool = WINDOWS) -> list[str]:
    r"""Split a command into words as a shell does; on Windows a backslash is part of a path.

    >>> split_command(r'C:\\tools\\port.exe "my input.txt"', windows=True)
    ['C:\\\\tools\\\\port.exe', 'my input.txt']
    """
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if windows:
        lexer.escape = ""
    return list(lexer)


def placeholders(words: Iterable[str]) -> list[str]:
    """Return the names NAME of every `{input.NAME}`."""
    return [name for word in words for name in _PLACEHOLDER.findall(word)]


def fill(words: Sequence[str], values: Mapping[str, str], main: Path | None, trace: Path) -> list[str]:
    """Put values in place of `{…}`; each word stays one word, whatever is in the value."""
    known = {"{input}": "" if main is None else str(main), "{trace}": str(trace)}
    known |= {f"{{input.{name}}}": value for name, value in values.items()}
    return [_BRACES.sub(lambda found: known.get(found[0], found[0]), word) for word in words]


def run_command(
    command: Command,
    words: Sequence[str],
    environment: Mapping[str, str],
    on_line: OnLine | None = None,
) -> float:
    """Run to the end and return the seconds it took; CommandError says what went wrong, with the last lines.

    words: the command with its placeholders filled
    environment: variables beside those of this process and of the project
    on_line: called with every line that the command prints
    """
    started = time.monotonic()
    process = _start(command, list(words), environment)
    _running.add(process)
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    assert process.stdout is not None, "it was started with a pipe"
    reader = threading.Thread(target=_read_lines, args=(process.stdout, last, on_line), daemon=True)
    reader.start()
    try:
        code = process.wait(timeout=command.timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        reader.join(_TERMINATE_S)
        raise CommandError(
            f"the {command.side} command was stopped after {command.timeout:g} s, the time limit; raise timeout under "
            f"[{command.side}] if it needs longer{_quoted(last)}"
        ) from None
    except BaseException:  # Ctrl-C: it runs in a session of its own and would live on
        _end(process)
        raise
    finally:
        _running.discard(process)
    reader.join(_TERMINATE_S)  # a grandchild may keep the pipe open for ever
    seconds = time.monotonic() - started
    if code != 0:
        raise CommandError(f"the {command.side} command {_ended(code)} after {seconds:.1f} s{_quoted(last)}")
    return seconds


def stop_commands() -> None:
    """End every command that runs in another thread."""
    for process in list(_running):
        _end(process)


def _start(command: Command, words: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    words[0] = _program(command, words[0])
    try:
        return subprocess.Popen(
            words,
            cwd=command.folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **command.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=not WINDOWS,
        )
    except OSError as error:
        raise CommandError(
            f"the {command.side} command {words[0]!r} cannot be started ({error.strerror or error})", started=False
        ) from error


def _program(command: Command, word: str) -> str:
    """Return the program's full path; a name without folders is looked up in PATH."""
    local = command.folder / word
    missing = f"the {command.side} command {word!r} does not exist"
    if "/" in word or (WINDOWS and "\\" in word):
        if local.exists():
            return str(local)
        near = did_you_mean(local.name, _names_in(local.parent))
        raise CommandError(f"{missing}{near}; build it, or correct command under [{command.side}]", started=False)
    found = shutil.which(word, path={**os.environ, **command.environment}.get("PATH"))
    if found is None:
        here = f"{word} in {command.folder} is written ./{word}" if local.exists() else "it is not in PATH"
        raise CommandError(f"{missing}; {here}; correct command under [{command.side}]", started=False)
    return found


def _names_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _read_lines(stream: IO[str], last: deque[str], on_line: OnLine | None) -> None:
    with stream, suppress(ValueError, OSError):  # closed while it was read
        for line in stream:
            text = line.rstrip()[:_LONGEST_LINE]
            if text.strip(_MARKS):
                last.append(text)
            if on_line is not None:
                on_line(text)


def _end(process: subprocess.Popen[str]) -> None:
    """End a command and what it started; kindly first."""
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with suppress(OSError):
            if WINDOWS:
                process.kill()
            else:
                os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TERMINATE_S)
            return


def _ended(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _quoted(lines: Iterable[str]) -> str:
    said = " | ".join(lines)
    return f"; its last lines: {said}" if said else "; it printed nothing"

"""Read vocabularies: text, JSON, tokenizer.json, sentencepiece, and pickles without running them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.pickles.machine import MAX_SIZE, unpickle
from firstdiff.readers.pickles.python_objects import BUILTINS
from firstdiff.readers.pickles.values import Bag, Budget, Opaque, Table, shown

_LARGEST_ID = 1 << 24
_PICKLES = (".pkl", ".pickle")
# what a folder of a tokenizer holds, the most complete first
_IN_FOLDER = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model", "tokenizer.vocab")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id, and the merges of a BPE tokenizer in their order.

    form: of the file, in words
    tokens: None where no token has an id
    merges: None for a form that has none
    repeated: tokens that have more than one id, or ids that have more than one token
    """

    path: str
    form: str
    tokens: tuple[str | None, ...]
    merges: tuple[str, ...] | None = None
    repeated: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def size(self) -> int:
        """The number of tokens, ids without one left out."""
        return sum(token is not None for token in self.tokens)

    def decode(self, token_id: int) -> str:
        """Return a token for people to read, `?` where the vocabulary has none of that id."""
        token = self.tokens[token_id] if 0 <= token_id < len(self.tokens) else None
        return "?" if token is None else repr(token)


def load_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """Read a vocabulary from a file, or from the folder of a tokenizer.

    Known are one token a line (`vocab.txt`), JSON lists and dicts (`vocab.json`), `tokenizer.json`, sentencepiece's
    `.vocab` and `.model`, and pickles of dicts and lists, of which nothing is run.
    """
    where = Path(path)
    if where.is_dir():
        return _from_folder(where)
    try:
        size = where.stat().st_size
        if size > MAX_SIZE:
            raise ReadError(f"has {size:,} bytes; a vocabulary has {MAX_SIZE:,} at most")
        return _read(where, where.read_bytes())
    except OSError as error:
        raise ReadError(f"cannot be read ({error.strerror or error})", str(where)) from error
    except ReadError as error:
        raise error.named(str(where)) from error


def _from_folder(folder: Path) -> Vocabulary:
    name = next((name for name in _IN_FOLDER if (folder / name).is_file()), None)
    if name is None:
        raise ReadError(f"holds none of {', '.join(_IN_FOLDER)}; name the file of the vocabulary", str(folder))
    found = load_vocabulary(folder / name)
    merges = folder / "merges.txt"
    if found.merges is None and merges.is_file():
        return replace(found, merges=load_vocabulary(merges).merges)
    return found


def _read(path: Path, data: bytes) -> Vocabulary:
    if not data:
        raise ReadError("is empty")
    suffix = path.suffix.lower()
    if suffix in _PICKLES or data[:1] == b"\x80":
        return _from_plain(str(path), "pickle", _unpickled(data))
    if suffix == ".model":
        return _by_id(str(path), "sentencepiece model", enumerate(_pieces(data)))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"is not text in UTF-8 (byte {error.start:,}), nor a pickle or a .model file") from error
    if suffix == ".json" or text.lstrip()[:1] in ("{", "["):
        return _from_json(str(path), text, must=suffix == ".json")
    return _from_text(str(path), text, suffix)


def _from_text(path: str, text: str, suffix: str) -> Vocabulary:
    lines = text.split("\n")
    lines = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    if lines and (lines[0].startswith("#version") or Path(path).name == "merges.txt"):
        return Vocabulary(path, "merges", (), tuple(line for line in lines if line and not line.startswith("#version")))
    scored = [line.rpartition("\t") for line in lines]
    if suffix == ".vocab" or all(tab and _is_number(score) for _, tab, score in scored):
        return _by_id(path, "sentencepiece vocab", enumerate(token for token, _, _ in scored))
    return _by_id(path, "one token a line", enumerate(lines))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _from_json(path: str, text: str, *, must: bool) -> Vocabulary:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if must:
            raise ReadError(f"is not valid JSON ({error})") from error
        return _from_text(path, text, "")  # a token may begin with a bracket
    if isinstance(value, dict) and isinstance(value.get("model"), dict) and "vocab" in value["model"]:
        return _from_tokenizer(path, value)
    return _from_plain(path, "JSON", value)


def _from_tokenizer(path: str, value: Mapping[str, Any]) -> Vocabulary:
    model = value["model"]
    vocab, merges = model["vocab"], model.get("merges")
    if isinstance(vocab, list):  # Unigram: [token, score]
        vocab = [entry[0] if isinstance(entry, list) and entry else entry for entry in vocab]
    entries = list(_entries(vocab))
    known = {index for index, _ in entries}
    for added in value.get("added_tokens") or ():
        if not isinstance(added, dict) or not _is_id(added.get("id")) or not isinstance(added.get("content"), str):
            raise ReadError("has an added token without id and content")
        if added["id"] not in known:
            entries.append((added["id"], added["content"]))
    found = _by_id(path, f"tokenizer.json, {model.get('type') or 'model of no type'}", entries)
    if merges is None:
        return found
    if not isinstance(merges, list):
        raise ReadError("has merges that are no list")
    return replace(found, merges=tuple(" ".join(map(str, m)) if isinstance(m, list) else str(m) for m in merges))


def _from_plain(path: str, form: str, value: Any) -> Vocabulary:
    if isinstance(value, dict) and len(value) <= 4:  # {"vocab": …, "merges": …}, and what checkpoints name so
        for name in ("vocab", "token_to_id", "stoi", "itos", "tokens"):
            if isinstance(value.get(name), dict | list):
                return _from_plain(path, form, value[name])
    return _by_id(path, form, _entries(value))


def _entries(value: Any) -> Iterator[tuple[int, str]]:
    """Yield ids and tokens of a list, or of a dict from token to id or from id to token."""
    if isinstance(value, list | tuple):
        yield from ((index, _token(token)) for index, token in enumerate(value))
        return
    if not isinstance(value, dict):
        raise ReadError(f"holds a {type(value).__name__}, where a list or a dict of tokens is expected")
    if value and all(_is_id(index) for index in value.values()):
        yield from ((index, _token(token)) for token, index in value.items())
    elif all(_is_id(index) or (isinstance(index, str) and index.isdecimal()) for index in value):
        yield from ((int(index), _token(token)) for index, token in value.items())
    else:
        token, index = next((token, index) for token, index in value.items() if not _is_id(index))
        raise ReadError(f"gives {str(token)[:60]!r} the id {str(index)[:60]!r}, which is no whole number from 0 up")


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _token(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    raise ReadError(f"has a token that is a {type(value).__name__}, not a text")


def _by_id(path: str, form: str, entries: Iterable[tuple[int, str]]) -> Vocabulary:
    tokens: dict[int, str] = {}
    seen: set[str] = set()
    repeated: list[str] = []
    for index, token in entries:
        if index > _LARGEST_ID:
            raise ReadError(f"gives {token[:60]!r} the id {index:,}; {_LARGEST_ID:,} is the largest firstdiff takes")
        if index in tokens:
            repeated.append(f"id {index} is both {tokens[index]!r} and {token!r}")
        elif token in seen:
            repeated.append(f"{token!r} has more than one id")
        tokens[index] = token
        seen.add(token)
    if not tokens:
        raise ReadError("holds no tokens")
    listed = tuple(tokens.get(index) for index in range(max(tokens) + 1))
    return Vocabulary(path, form, listed, repeated=tuple(repeated))


def _unpickled(data: bytes) -> Any:
    """Read a pickle with the interpreter that runs nothing, and only plain dicts, lists, texts and numbers."""
    budget = Budget(len(data))

    def no_storages(_: Any) -> Any:
        raise ReadError("refers to data outside the pickle; a vocabulary is a plain dict or list")

    return _plain(unpickle(data, BUILTINS, no_storages, budget), budget, 0)


def _plain(value: Any, budget: Budget, depth: int) -> Any:
    if depth > 8:
        raise ReadError("is nested too deeply for a vocabulary")
    if isinstance(value, Opaque):
        raise RefusedError(f"asks for {shown(value.name)}, which firstdiff does not run; save a plain dict or list")
    if isinstance(value, Table):
        budget.spend(len(value.flat))
        pairs = [(_plain(key, budget, depth + 1), _plain(item, budget, depth + 1)) for key, item in value.items()]
        if not all(isinstance(key, str | bytes | int) for key, _ in pairs):
            raise ReadError("has a dict whose keys are neither tokens nor ids")
        return {_token(key) if isinstance(key, bytes) else key: item for key, item in pairs}
    if isinstance(value, Bag):
        raise ReadError("holds a set, which has no order; save a list or a dict")
    if isinstance(value, list | tuple):
        budget.spend(len(value))
        return [_plain(item, budget, depth + 1) for item in value]
    return value


def _pieces(data: bytes) -> Iterator[str]:
    """Yield the pieces of a sentencepiece model: field 1 of the message, whose field 1 is the text."""
    for number, piece in _fields(data):
        if number == 1:
            yield next((text.decode("utf-8", "backslashreplace") for field, text in _fields(piece) if field == 1), "")


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a protobuf message that hold bytes; others are passed over."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == 0:
            _, position = _varint(data, position)
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        elif kind == 2:
            size, position = _varint(data, position)
            if position + size > len(data):
                raise ReadError("ends too early for a sentencepiece model; was it cut off?")
            yield tag >> 3, data[position : position + size]
            position += size
        else:
            raise ReadError("is not a sentencepiece model")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(data):
            raise ReadError("ends too early for a sentencepiece model; was it cut off?")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ReadError("is not a sentencepiece model")

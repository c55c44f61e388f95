"""Every client writes, reads, judges and draws what the others do."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from firstdiff.readers import open_trace
from tests.conformance import cases, draws, tensors
from tests.conformance.clients import CLIENTS, Client
from tests.conformance.listing import differences, listing

pytestmark = pytest.mark.xdist_group("conformance")

CROSSED = ("dtypes", "names", "steps", "rank2", "fields")


def having(*commands: str) -> pytest.MarkDecorator:
    fitting = [client for client in CLIENTS if client.commands.issuperset(commands)]
    return pytest.mark.parametrize("client", fitting, ids=lambda client: client.name)


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    tensors.write_golden(folder)
    (folder / "plain").mkdir()
    tensors.write_plain(folder / "plain")
    return folder


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Client], Path]:
    """Gives the folder of what a client wrote, once for all tests."""

    @cache
    def write(client: Client) -> Path:
        folder = tmp_path_factory.mktemp(client.name)
        client.run("write", tensors.TENSORS, folder)
        return folder

    return write


def test_the_description_is_what_the_generator_gives() -> None:
    assert tensors.described() == list(tensors._lines())
    assert cases.CASES.read_text(encoding="ascii") == cases.HEADER + "".join(line + "\n" for line in cases.lines())


@having("write")
def test_writes_every_trace(client: Client, golden: Path, written: Callable[[Client], Path]) -> None:
    names = [name for name in tensors.by_trace() if name != tensors.CRASH]
    assert {folder.name for folder in written(client).iterdir()} == set(names)
    assert [text for name in names for text in differences(golden / name, written(client) / name)] == []


@having("crash")
def test_loses_nothing_when_it_dies(client: Client, golden: Path, tmp_path: Path) -> None:
    client.run("crash", tensors.TENSORS, tmp_path, dies=True)
    written = open_trace(tmp_path / tensors.CRASH)
    kept = open_trace(golden / tensors.CRASH)
    assert [tensor.record for tensor in written] == [tensor.record for tensor in kept]
    assert [tensor.values().read().tobytes() for tensor in written] == [
        tensor.values().read().tobytes() for tensor in kept
    ]
    assert json.loads((tmp_path / tensors.CRASH / "trace.json").read_text())["complete"] is False


@having("read")
def test_reads_every_golden_trace_and_folder(client: Client, golden: Path) -> None:
    folders = sorted(golden.iterdir())
    assert client.run("read", *folders) == "".join(map(listing, folders))


@having("read")
@pytest.mark.parametrize("writer", [client for client in CLIENTS if "write" in client.commands], ids=str)
def test_reads_what_every_other_client_wrote(
    client: Client, writer: Client, written: Callable[[Client], Path], golden: Path
) -> None:
    traces = [written(writer) / name for name in CROSSED]
    assert client.run("read", *traces) == "".join(listing(golden / name) for name in CROSSED)


@having("check")
def test_judges_every_case(client: Client, golden: Path) -> None:
    assert client.run("check", cases.CASES, golden) == cases.expected()


@having("draws")
def test_draws_the_same_bits(client: Client) -> None:
    assert client.run("draws") == draws.GOLDEN.read_text(encoding="ascii")


def test_a_wrong_byte_a_lost_line_and_a_wrong_field_are_noticed(golden: Path, tmp_path: Path) -> None:
    lines = tensors.by_trace()["steps"]
    tensors.write_trace(tmp_path / "steps", lines).close()
    assert differences(golden / "steps", tmp_path / "steps") == []
    data = tmp_path / "steps" / "000003.npy"
    data.write_bytes(data.read_bytes()[:-1] + b"!")
    jsonl = tmp_path / "steps" / "tensors.jsonl"
    text = jsonl.read_text(encoding="utf-8").splitlines(keepends=True)
    jsonl.write_text("".join(text[:-2]) + text[-2].replace('"step": 1000', '"step": 999'), encoding="utf-8")
    found = " ".join(differences(golden / "steps", tmp_path / "steps"))
    assert "000003.npy differs" in found
    assert "9 tensors where 10" in found
    assert "step=999" in found

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firstdiff.errors import FirstdiffError
from firstdiff.workflows.command import fill, split_command
from firstdiff.workflows.project import find_project, load_project
from firstdiff.workflows.project_template import write_project
from firstdiff.workflows.watch import candidate_files
from tests.cli.conftest import Done
from tests.workflows.scratch import scratch_project

Run = Callable[..., Done]


def test_a_project_is_found_from_a_folder_below(tmp_path: Path) -> None:
    scratch_project(tmp_path)
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    assert find_project(below) == tmp_path / "firstdiff.toml"


def test_paths_are_relative_to_the_file_and_components_keep_their_order(tmp_path: Path) -> None:
    project = load_project(scratch_project(tmp_path) / "firstdiff.toml")
    assert [component.name for component in project.components] == ["tokenizer", "embedding", "encoder", "head"]
    assert project.golden.folder == tmp_path / "golden"
    assert project.inputs["short"].main_file == tmp_path / "ids.txt"
    assert project.golden.code == (tmp_path / "reference.py", tmp_path / "recorder.py")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[golden]\ncode = ["/etc/*.py"]\n', "[golden] code: /etc/*.py is no glob relative to this file ("),
        ('[candidate]\ncommand = "x"\nwatch = ["/src/*.rs"]\n', "[candidate] watch: /src/*.rs is no glob relative to"),
        ("[candidat]\n", "unknown entry candidat (did you mean candidate?)"),
        ('[candidate]\ncomand = "x"\n', "unknown entry [candidate] comand (did you mean command?)"),
        ("[candidate]\ncommand = []\n", "[candidate] command is empty"),
        ("[candidate]\ncommand = 'a \"b'\n", "cannot be split into words (No closing quotation)"),
        ('[candidate]\ncommand = "x"\ntimeout = -1\n', "timeout is -1; it takes seconds above 0"),
        (
            '[candidate]\ncommand = "x {input.text}"\n[inputs.a]\ntxt = "hi"\n',
            "{input.text}, which input set 'a' does not",
        ),
        ('[inputs.a]\ntext = "in/none.txt"\n', "[inputs.a] text: in/none.txt does not exist"),
        ('[inputs."../a"]\ntext = "hi"\n', "input set '../a' cannot name a folder"),
        ('[components]\nfull = ["x"]\n', "full cannot name a component"),
        ("[components]\nmel = []\n", "[components] mel is empty"),
        ('[golden]\ncode = ["*.jl"]\n', "[golden] code: *.jl matches no file"),
        ("[golden\n", "is not valid TOML"),
        ('[[tolerances]]\nname = "x("\natol = 1\n', "is not a regular expression"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "firstdiff.toml").write_text(text, encoding="utf-8")
    with pytest.raises(FirstdiffError) as error:
        load_project(tmp_path / "firstdiff.toml")
    assert says in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "firstdiff.toml"))


def test_windows_paths_keep_their_backslashes() -> None:
    assert split_command(r'C:\ports\a.exe --in "C:\my data\x.txt"', windows=True) == [
        r"C:\ports\a.exe",
        "--in",
        r"C:\my data\x.txt",
    ]
    assert split_command(r"port 'a b' c\ d", windows=False) == ["port", "a b", "c d"]


def test_a_value_stays_one_word_whatever_is_in_it() -> None:
    words = fill(["port", "--text={input.text}", "{trace}"], {"text": "a b; $HOME {trace}"}, None, Path("t"))
    assert words == ["port", "--text=a b; $HOME {trace}", "t"]


def test_init_finds_programs_inputs_and_weights(tmp_path: Path) -> None:
    scratch_project(tmp_path)
    (tmp_path / "firstdiff.toml").unlink()
    for name in ("reference.py", "port.py"):
        (tmp_path / name).write_text("import firstdiff as fd\n", encoding="utf-8")
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "a long name.txt").write_text("1", encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"")
    path, _ = write_project(tmp_path)
    project = load_project(path)
    assert project.command("reference").words == ("python", "reference.py", "{input.data}")
    assert project.command("candidate").words[1] == "port.py"
    assert project.inputs["a_long_name"].values == {"data": "inputs/a long name.txt"}
    assert project.golden.files["weights"] == tmp_path / "model.safetensors"
    with pytest.raises(FirstdiffError, match="exists already"):
        write_project(tmp_path)


def test_init_takes_programs_by_name_whose_modules_record(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import firstdiff as fd\n", encoding="utf-8")
    for name in ("reference.py", "port.py", "export_report.py"):
        (tmp_path / name).write_text("from net import main\n", encoding="utf-8")
    _, found = write_project(tmp_path)
    assert (found.reference, found.candidate) == ("python reference.py", "python port.py")


def test_init_looks_into_the_folders_of_a_project(tmp_path: Path) -> None:
    for name in ("model/model.safetensors", "model/vocab.json", "model/merges.txt", "golden/short/000000.npz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "port").mkdir()
    (tmp_path / "port" / "Cargo.toml").write_text('[package]\nname = "tts-port"\n', encoding="utf-8")
    path, found = write_project(tmp_path)
    assert found.candidate == "./port/target/release/tts-port"
    files = load_project(path).golden.files
    assert sorted(file.name for file in files.values()) == ["merges.txt", "model.safetensors", "vocab.json"]


def test_init_finds_programs_below_the_folder(tmp_path: Path) -> None:
    for name, text in {
        "upstream/__init__.py": "",
        "upstream/tide/__init__.py": "",
        "upstream/tide/model.py": "import firstdiff as fd\n\ndef run(x):\n    fd.tap('x', x)\n",
        "upstream/tide/infer.py": "import sys\nimport firstdiff as fd\nwith fd.record():\n    pass\n",
        "port_py/main.py": "import sys\nimport firstdiff as fd\nwith fd.record():\n    print(sys.argv)\n",
        "port_rs/Cargo.toml": '[package]\nname = "tide"\n',
        "tools/make.py": "import sys\n",
        "data/words/hello.txt": "hello",
        "data/words/hello.wav": "",
        "data/words/long.txt": "long",
        "data/words/long.wav": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    path, found = write_project(tmp_path)
    assert found.reference == "python -m upstream.tide.infer"
    assert found.candidates == ("./port_rs/target/release/tide", "python port_py/main.py")
    project = load_project(path)
    assert project.command("candidate").words[1:] == ("{input.text}", "{input.audio}")
    assert project.inputs["hello"].values == {"text": "data/words/hello.txt", "audio": "data/words/hello.wav"}
    assert '# command = "python port_py/main.py {input.text} {input.audio}"   # found as well' in path.read_text(
        "utf-8"
    )


def test_code_of_the_reference_is_what_its_program_imports_from_the_project(tmp_path: Path) -> None:
    for name, text in {
        "reference.py": "import os, numpy\nfrom model import layers\nimport shared\n",
        "port.py": "import shared\n",
        "shared.py": "def (",
        "model/__init__.py": "",
        "model/layers.py": "from . import norms\nfrom .deep.block import Block\n",
        "model/norms.py": "",
        "model/deep/__init__.py": "",
        "model/deep/block.py": "from ..norms import eps\n",
        "unrelated.py": "",
        "firstdiff.toml": """
[reference]
command = "python -m reference"
[candidate]
command = "python port.py"
""",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    project = load_project(tmp_path / "firstdiff.toml")
    assert sorted(project.shown(file) for file in project.golden.code) == [
        "model/__init__.py",
        "model/deep/__init__.py",
        "model/deep/block.py",
        "model/layers.py",
        "model/norms.py",
        "reference.py",
        "shared.py",
    ]
    # what both use is the candidate's as well: --watch must see it change
    assert [project.shown(file) for file in candidate_files(project)] == ["port.py", "shared.py", "unrelated.py"]


def test_init_passes_over_what_it_may_not_look_at(tmp_path: Path, firstdiff: Run) -> None:
    (tmp_path / "link").symlink_to("x" * 300)  # a name too long to look up fails for root as well
    done = firstdiff("init", tmp_path)
    assert done.code == 0, done.err
    assert "reference: not found; fill in command under [reference]" in done.out
    assert "next: fill in the commands, then firstdiff golden" in done.out


def test_init_knows_a_crate(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "tts"\n', encoding="utf-8")
    path, found = write_project(tmp_path)
    assert found.candidate == "./target/release/tts"
    assert load_project(path).reference is None

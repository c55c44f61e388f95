"""A port in Rust that records with the client, through the whole workflow."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done
from tests.tools import needs

CRATE = Path(__file__).parents[2] / "clients" / "rust"
PORT = """
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(std::env::args().nth(1).ok_or("no input")?)?;
    let ids: Vec<i64> = text.split_whitespace().map(|word| word.parse()).collect::<Result<_, _>>()?;
    firstdiff::tap("tokens", &ids, &[ids.len()])?;
    let embedded: Vec<f32> =
        ids.iter().flat_map(|&n| (0..4).map(move |k| (3.7 * n as f64 + k as f64).sin() as f32)).collect();
    let shape = [ids.len(), 4];
    firstdiff::tap("embed.out", &embedded, &shape)?;
    let normed: Vec<f32> = embedded.iter().map(|x| x / DIVISOR).collect();
    firstdiff::tap("encoder.norm", &normed, &shape)?;
    let mixed: Vec<f32> = normed.iter().enumerate().map(|(k, x)| x.tanh() + 0.1 * k as f32).collect();
    firstdiff::tap("encoder.mix", &mixed, &shape)?;
    let mixed = match std::env::var("FIRSTDIFF_GOLDEN") {
        Ok(folder) if !folder.is_empty() => {
            firstdiff::Validator::open(&folder)?.load_golden("encoder.mix")?.to_f32()?
        }
        _ => mixed,
    };
    let logits: Vec<f32> = mixed.iter().map(|x| 2.0 * x).collect();
    firstdiff::tap("head.logits", &logits, &shape)?;
    println!("rust is done");
    Ok(())
}
"""

pytestmark = pytest.mark.xdist_group("rust-client")


def built(project: Path, divisor: str) -> None:
    (project / "main.rs").write_text(PORT.replace("DIVISOR", divisor), encoding="utf-8")
    library = ["--crate-name", "firstdiff", "--crate-type", "rlib", CRATE / "src" / "lib.rs"]
    for arguments in (library, ["--extern", "firstdiff=libfirstdiff.rlib", "-o", "port", "main.rs"]):
        if "rlib" in arguments and (project / "libfirstdiff.rlib").exists():
            continue
        command = ["rustc", "--edition", "2021", "-L", ".", *arguments]
        environment = {**os.environ, "CARGO_PKG_VERSION": "0"}
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_port_in_rust(golden: Path, project: Path, firstdiff: Callable[..., Done]) -> None:
    needs("cargo")
    text = (project / "firstdiff.toml").read_text(encoding="utf-8")
    start, end = text.index("command", text.index("[candidate]")), text.index("timeout")
    text = f'{text[:start]}command = "./port {{input.ids}}"\n{text[end:]}'
    (project / "firstdiff.toml").write_text(text, encoding="utf-8")
    done = firstdiff("validate")
    assert (done.code, "'./port' does not exist" in done.err) == (2, True)
    built(project, "1.4")
    done = firstdiff("validate")
    assert (done.code, "rust is done" in done.err) == (1, True)
    assert "encoder    FAIL" in done.out
    assert "(scale.constant)" in done.out
    assert "head       FAIL" in done.out
    done = firstdiff("validate", "--isolate")  # the head gets the golden's own encoder.mix
    assert (done.code, "encoder    FAIL" in done.out, "head       PASS" in done.out) == (1, True, True)
    built(project, "1.5")
    done = firstdiff("validate", "--require-all")
    assert done.code == 0, done.out
    assert firstdiff("validate", "--component", "encoder").code == 0

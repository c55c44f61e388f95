"""The debugger's verdict on generations, in Node on the page's own source."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import hatch_build

from tests.clients.javascript import node
from tests.examples.conftest import EXAMPLE

WEB = EXAMPLE / "web"
RUN = """
import { judge } from "./verdict.mjs";
import { readFileSync } from "node:fs";
const { generations, bands, quality, words } = JSON.parse(readFileSync(0, "utf8"));
const known = new Set(words);
console.log(JSON.stringify(generations.map((one) => judge({ nonFinite: undefined, ...one }, bands, quality, known))));
"""
LETTERS = "abcdefghijklmnopqrstuvwxyz ,.!?\n"
LENGTH = 128


def noise(seed: int) -> str:
    return "".join(random.Random(seed).choices(LETTERS, k=LENGTH))


@dataclass(frozen=True)
class Generation:
    """The last text, the noise before it, and the share of characters that each step changed."""

    last: str
    changed: Sequence[float]
    first: str = field(default_factory=lambda: noise(1))
    non_finite: int | None = None

    def as_json(self) -> dict[str, object]:
        infinite = {} if self.non_finite is None else {"nonFinite": self.non_finite}
        return {"texts": [self.first, self.last], "changed": list(self.changed), **infinite}


@dataclass(frozen=True)
class Verdict:
    """The kind of a generation and the part to suspect."""

    kind: str
    suspect: str


@dataclass(frozen=True)
class Judge:
    """The page's verdict, bundled for Node."""

    script: Path

    @classmethod
    def build(cls, folder: Path) -> Judge:
        hatch_build.install_packages(WEB)
        bundle = ["exec", "--", "rolldown", "src/verdict.ts", "--file", str(folder / "verdict.mjs")]
        hatch_build.npm(*bundle, folder=WEB)
        (folder / "run.mjs").write_text(RUN, encoding="utf-8")
        return cls(folder / "run.mjs")

    def verdicts(
        self,
        generations: Sequence[Generation],
        bands: Sequence[Mapping[str, float]],
        quality: Mapping[str, float],
        words: Sequence[str],
    ) -> list[Verdict]:
        """Judge generations by what Python's are like."""
        given = {"bands": bands, "quality": quality, "words": words}
        text = json.dumps({**given, "generations": [one.as_json() for one in generations]})
        command = [node(), str(self.script)]
        done = subprocess.run(command, input=text, check=False, capture_output=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        return [Verdict(one["kind"], one["suspect"]) for one in json.loads(done.stdout)]

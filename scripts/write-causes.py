"""Write docs/causes.md from the docstrings of the hypotheses.

python scripts/write-causes.py
"""

from __future__ import annotations

from pathlib import Path

from firstdiff.diagnose.causes import pages

TARGET = Path(__file__).parent.parent / "docs" / "causes.md"
_HEAD = """# Causes

What a diagnosis may say, what it means, how it is tested and what to do. `firstdiff causes CODE` shows the same; how
causes are tested and ranked, and how to add your own, is told under [hypotheses](hypotheses.md).

"Unknown" is an answer, too: no cause that was tested explains the difference, and the notes say what to
record to know more.

What users see, and what it usually is:

| symptom | look at |
|---|---|
| `[B, S, H]` against `[B, H, S]` | `layout.transpose` |
| off by about 1e-3 behind a normalisation | `norm.eps` |
| off by about 0.5, everywhere | `normalise.mean_std` |
| all zeros | `activation.missing`, `activation.kind`, `values.zero` |
| NaN or Inf | `overflow`: compute in fp32 |
| other tokens | `ids.mismatch`, `vocab.mismatch` |
| clicks in sound | `audio.window`, `audio.hop`, `audio.clicks` |

All of them:

| code | |
|---|---|"""


def as_markdown() -> str:
    """Every page in one document."""
    every = pages()
    table = "\n".join(f"| [`{page.code}`](#{page.code.replace('.', '')}) | {page.title} |" for page in every)
    texts = "\n".join(f"\n## {page.code}\n\n" + "\n\n".join(page.texts) for page in every)
    return f"{_HEAD}\n{table}\n{texts}\n"


if __name__ == "__main__":
    TARGET.write_text(as_markdown(), encoding="utf-8", newline="\n")

"""Hypothesis: rotary embeddings rotate interleaved pairs instead of halves, or the reverse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import rotary


class RopeInterleave(Counterfactual):
    """Rotary embeddings turn the wrong pairs, or turn them the other way.

    A pair is an element of each half (Llama in transformers, GPT-NeoX) or two neighbours (GPT-J, Llama's own
    checkpoints). Weights made for one layout give other values in the other, silently.

    Tested by turning the pairs of the other layout, and by turning back. Use the reference's layout, or permute the
    weights of query and key.
    """

    code = "layout.rope_interleave"
    also = ("rope.direction",)
    functions = (rotary.apply_rotary, rotary.rotary, rotary.rotary_tables)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = trial.plan.settings["layout"]
        other = "interleaved" if right == "half" else "half"
        yield Variant(
            plan=trial.plan.changed(layout=other),
            what=f"with pairs {'next to each other' if other == 'interleaved' else 'half a head apart'}",
            fix=f"turn the pairs of the reference in {trial.key} (its layout is {right})",
        )
        if "inverse" in trial.plan.settings:
            yield Variant(
                plan=trial.plan.changed(inverse=True),
                what="with the angle negative",
                fix=f"turn the other way in {trial.key}: check the signs of sine",
                cause="rope.direction",
            )


HYPOTHESIS: Final = RopeInterleave()

"""The corpus: healthy pairs of runs and planted faults, to choose the limits of the default verdict and to score them.

`python -m firstdiff.testing.corpus` measures trained models from packages, transformers models with random weights and
the zoo's, each against itself in another type, with other kernels or with its work split otherwise, and plants faults
in what they compute. Limits are chosen on one half of the models and scored on the other. Needs torch and transformers.
"""

from __future__ import annotations

__all__: list[str] = []

"""Write the weights, vocabulary, merges and voice of the example: `python make_model.py [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from tts.pipeline import write_model

if __name__ == "__main__":
    write_model(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "model")

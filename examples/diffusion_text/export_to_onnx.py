"""Export the trained model for the browser: model.onnx, vocab.json and metadata.json.

    python export_to_onnx.py --out web/public/model

The ONNX model takes ids int64 [1, block_size] and sigma float32 [1] and returns logits float32
[1, block_size, vocab_size], the log-scores of the sampler.
"""

import argparse
import hashlib
import json
import logging
import shutil
import warnings
from dataclasses import asdict
from pathlib import Path

import torch
from model import HERE, WEIGHTS, DiffusionText, load_model

FILES = ("model.onnx", "vocab.json", "metadata.json")


def export_model(model: DiffusionText, path: Path) -> None:
    """Write the model as one ONNX file with its weights inside."""
    config = model.config
    inputs = (torch.zeros(1, config.block_size, dtype=torch.int64), torch.ones(1))
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            inputs,
            path,
            input_names=["ids", "sigma"],
            output_names=["logits"],
            opset_version=18,
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def export(weights: Path, out: Path) -> None:
    """Write the three files that the pages load."""
    model, _ = load_model(weights)
    out.mkdir(parents=True, exist_ok=True)
    export_model(model, out / "model.onnx")
    shutil.copyfile(weights / "vocab.json", out / "vocab.json")
    digests = {name: digest(out / name) for name in ("model.onnx", "vocab.json")}
    digests["weights.npz"] = digest(weights / "weights.npz")
    metadata = {**asdict(model.config), "digests": digests}
    (out / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Export the discrete-diffusion model to ONNX.")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder that train.py wrote")
    parser.add_argument("--out", type=Path, default=HERE / "web" / "public" / "model")
    args = parser.parse_args()
    try:
        export(args.weights, args.out)
    except ImportError as error:
        raise SystemExit(f"{error}: run `pip install onnx onnxscript onnxruntime`") from None
    for name in FILES:
        print(f"{args.out / name}  {(args.out / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

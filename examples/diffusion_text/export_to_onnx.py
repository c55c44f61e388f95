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
from model import HERE, WEIGHTS, DiffusionText, load_model, with_heads

HEADS = "faulty/heads.onnx"
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


def export_faulty(model: DiffusionText, out: Path) -> None:
    """Write the wrong models that the debugger's switches load: another number of heads, and older weights."""
    (out / "faulty").mkdir(exist_ok=True)
    export_model(with_heads(model, 2 * model.config.heads), out / HEADS)
    older = with_heads(model, model.config.heads)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in older.parameters():
            value.mul_(1 + 0.2 * torch.randn(value.shape, generator=generator))
    export_model(older, out / "faulty" / "stale.onnx")


def export(weights: Path, out: Path, faulty: bool = False) -> None:
    """Write the three files that the pages load, and the word list that the debugger counts with."""
    model, _ = load_model(weights)
    out.mkdir(parents=True, exist_ok=True)
    export_model(model, out / "model.onnx")
    for name in ("vocab.json", "words.txt"):
        shutil.copyfile(weights / name, out / name)
    digests = {name: digest(out / name) for name in ("model.onnx", "vocab.json")}
    if faulty:
        export_faulty(model, out)
        # this one was exported wrongly, so its digest agrees; the stale one is of an earlier export
        digests[HEADS] = digest(out / HEADS)
    digests["weights.npz"] = digest(weights / "weights.npz")
    metadata = {**asdict(model.config), "digests": digests}
    (out / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Export the discrete-diffusion model to ONNX.")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder that train.py wrote")
    parser.add_argument("--out", type=Path, default=HERE / "web" / "public" / "model")
    parser.add_argument("--faulty", action="store_true", help="also write the wrong models of the debugger's switches")
    args = parser.parse_args()
    try:
        export(args.weights, args.out, args.faulty)
    except ImportError as error:
        raise SystemExit(f"{error}: run `pip install onnx onnxscript onnxruntime`") from None
    for name in FILES:
        print(f"{args.out / name}  {(args.out / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

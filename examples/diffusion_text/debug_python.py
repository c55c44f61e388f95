"""Write what the browser should compute, for debug.html to compare with.

    python debug_python.py --model web/public/model

Writes three files beside the exported model. `debug_pytorch_output.json` and `debug_onnx_output.json` hold the logits
of one input in both runtimes; `debug_step_output.json` holds one whole denoising step, the generation that it comes
from step by step, and how many characters each step of other generations changed.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from generate import sampler_for, torch_log_scores
from invariants import Check, check_generation, check_logits, check_step
from model import HERE, WEIGHTS, DiffusionText, load_model, with_heads
from sampler import LogScores, Step, decode
from words import common_pair_share, common_pairs, real_word_share, split_words

TAPS = ("log_score", "score", "staggered_score", "transition", "probs", "gumbel")
MAX_DIFFERENCE = 1e-5
BAND_SAMPLES = 16
BAND_SEED = 1000


def onnx_log_scores(path: Path) -> LogScores:
    """Return the exported model as a function of arrays."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(ids: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        (logits,) = session.run(["logits"], {"ids": ids, "sigma": sigma})
        return np.asarray(logits)

    return run


def numbers(values: np.ndarray) -> list[Any]:
    """Return a flat list that reads back as the same values; nine digits are enough for float32."""
    flat = values.reshape(-1).tolist()
    return [float(f"{value:.9g}") for value in flat] if values.dtype == np.float32 else flat


def statistics(values: np.ndarray) -> dict[str, float | int]:
    """Return the range and the number of values that are not finite."""
    finite = values[np.isfinite(values)].astype(np.float64)
    return {
        "min": float(finite.min()),
        "max": float(finite.max()),
        "mean": float(finite.mean()),
        "nan": int(np.isnan(values).sum()),
        "inf": int(np.isinf(values).sum()),
    }


def describe_checks(checks: Iterable[Check]) -> list[dict[str, object]]:
    return [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in checks]


def inference_report(run: LogScores, ids: np.ndarray, sigma: np.ndarray, vocab: list[str]) -> dict[str, Any]:
    """Describe the logits of one input."""
    logits = run(ids, sigma)
    position = ids.shape[1] // 2
    top = np.argsort(-logits[0, position], kind="stable")[:10]
    return {
        "ids": ids[0].tolist(),
        "sigma": float(sigma[0]),
        "shape": list(logits.shape),
        "dtype": str(logits.dtype),
        "statistics": statistics(logits),
        "position": position,
        "top_tokens": [{"character": vocab[index], "logit": float(logits[0, position, index])} for index in top],
        "checks": describe_checks(check_logits(logits, ids.shape[1], len(vocab))),
        "logits": numbers(logits),
    }


def step_summary(step: Step, vocab: list[str]) -> dict[str, Any]:
    """Describe a step of a generation without its arrays."""
    return {
        "t": step.t,
        "sigma": step.sigma,
        "delta_sigma": step.delta_sigma,
        "changed": step.changed,
        "text": decode(step.sampled[0], vocab),
        "statistics": {name: statistics(getattr(step, name)) for name in TAPS},
    }


def step_arrays(step: Step) -> dict[str, Any]:
    """Return everything that one step computed."""
    return {
        "index": step.index,
        "t": step.t,
        "sigma": step.sigma,
        "delta_sigma": step.delta_sigma,
        "ids": step.ids[0].tolist(),
        **{name: numbers(getattr(step, name)) for name in TAPS},
        "sampled": step.sampled[0].tolist(),
        "changed": step.changed,
    }


def measure_bands(model: DiffusionText, steps: int) -> tuple[list[dict[str, float]], np.ndarray]:
    """Return the share of characters that each step of some generations changes, and the ids they end with.

    A band is the mean and four deviations to each side.
    """
    bands = []
    ids = np.zeros((0, 0), dtype=np.int64)
    for step in sampler_for(model).generate(BAND_SEED, steps, range(BAND_SAMPLES)):
        shares = (step.ids != step.sampled).mean(axis=1)
        mean = float(shares.mean())
        # one character more or less is always possible
        margin = 4 * float(shares.std()) + 1 / step.ids.shape[1]
        bands.append(
            {"sigma": step.sigma, "low": max(0.0, mean - margin), "mean": mean, "high": min(1.0, mean + margin)}
        )
        ids = step.sampled
    return bands, ids


def measure_quality(texts: list[str], known: list[str]) -> dict[str, float]:
    """Return the least shares of real words and of common letter pairs to expect: four deviations below the mean."""
    pairs, words = common_pairs(known), set(known)
    shares = {
        "real_words": [real_word_share([text], words) for text in texts],
        "common_pairs": [common_pair_share(text, pairs) for text in texts],
    }
    # one word more or less is always possible
    margin = len(texts) / max(1, sum(len(split_words(text)) for text in texts))
    return {name: max(0.0, float(np.mean(values) - 4 * np.std(values) - margin)) for name, values in shares.items()}


def logits_with_other_heads(model: DiffusionText, step: Step) -> list[dict[str, Any]]:
    """Return what the same weights compute with another number of heads, to recognise that mistake."""
    config = model.config
    reports = []
    for heads in (config.heads // 2, config.heads * 2):
        if heads and config.width % heads == 0:
            logits = torch_log_scores(with_heads(model, heads))(step.ids, np.array([step.sigma], dtype=np.float32))
            reports.append({"heads": heads, "logits": numbers(logits)})
    return reports


def main() -> None:
    parser = argparse.ArgumentParser(description="Write reference outputs of torch, ONNX and one denoising step.")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder that train.py wrote")
    parser.add_argument("--model", type=Path, default=HERE / "web" / "public" / "model", help="the exported model")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    exported = args.model / "model.onnx"
    if not exported.exists():
        raise SystemExit(f"{exported} does not exist: run `python export_to_onnx.py --out {args.model}` first")
    model, vocab = load_model(args.weights)
    config = model.config
    steps = list(sampler_for(model).generate(args.seed, config.steps))
    middle = steps[len(steps) // 2]
    sigma = np.array([middle.sigma], dtype=np.float32)

    torch_report = inference_report(torch_log_scores(model), middle.ids, sigma, vocab)
    onnx_report = inference_report(onnx_log_scores(exported), middle.ids, sigma, vocab)
    difference = float(np.abs(np.subtract(torch_report["logits"], onnx_report["logits"])).max())
    onnx_report["max_abs_difference"] = difference
    checks = [
        *check_logits(middle.log_score, config.block_size, config.vocab_size),
        *check_step(middle),
        *check_generation(steps),
        Check("ONNX equals PyTorch", difference <= MAX_DIFFERENCE, f"largest difference {difference:.2g}"),
    ]
    bands, ids = measure_bands(model, config.steps)
    texts = [decode(row, vocab) for row in [*ids, *steps[-1].sampled]]
    step_report = {
        "seed": args.seed,
        "steps": config.steps,
        "step": step_arrays(middle),
        "trajectory": [step_summary(step, vocab) for step in steps],
        "bands": bands,
        "quality": measure_quality(texts, (args.weights / "words.txt").read_text(encoding="utf-8").split()),
        "other_heads": logits_with_other_heads(model, middle),
        "checks": describe_checks(checks),
    }
    reports = {"pytorch": torch_report, "onnx": onnx_report, "step": step_report}
    for name, report in reports.items():
        path = args.model / f"debug_{name}_output.json"
        path.write_text(json.dumps(report, allow_nan=False) + "\n", encoding="utf-8")
        print(path)
    for check in checks:
        print(f"{'ok    ' if check.ok else 'FAILED'}  {check.name}: {check.detail}")
    if not all(check.ok for check in checks):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

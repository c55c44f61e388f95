"""Train the model on a text file; run the same command again to go on where it stopped.

    python train.py --text book.txt --run run --minutes 90

Writes `run/checkpoint.pt` every two minutes (weights, their moving average, optimizers, step and time spent) and
`run/weights/` with the averaged weights that the other scripts read. `--from weights` begins with trained weights.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from model import Config, DiffusionText, load_model, save_model
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from words import words_of

EMA_DECAY = 0.999
WARMUP_STEPS = 100
CHECKPOINT_SECONDS = 120.0
PRINT_SECONDS = 20.0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the discrete-diffusion text model on a text file.")
    parser.add_argument("--text", type=Path, required=True, help="UTF-8 text to learn from")
    parser.add_argument("--run", type=Path, default=Path("run"), help="folder of the checkpoint (default: run)")
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--minutes", type=float, help="total time over all resumed runs; the learning rate ends at 0")
    end.add_argument("--steps", type=int, help="total number of steps; the learning rate ends at 0")
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--block-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="start", type=Path, help="folder of trained weights to begin a new run with")
    return parser.parse_args()


def orthogonalize(matrix: Tensor) -> Tensor:
    """Return roughly the nearest orthogonal matrix, by five Newton-Schulz steps in float32."""
    x = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


class Muon(torch.optim.Optimizer):
    """Momentum whose updates are orthogonalized, which learns in about half the steps of AdamW.

    torch.optim.Muon computes in bfloat16 and is four times slower on processors without it.
    """

    def __init__(self, parameters: list[Tensor], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for value in group["params"]:
                state = self.state[value]
                momentum = state.setdefault("momentum", torch.zeros_like(value))
                momentum.lerp_(value.grad, 0.05)
                update = orthogonalize(value.grad.lerp(momentum, 0.95))
                # 0.2 * sqrt(larger side) gives the update the size of AdamW's, so one learning rate serves both
                value.mul_(1 - 0.01 * group["lr"])
                value.add_(update, alpha=-0.2 * max(value.shape) ** 0.5 * group["lr"])


class Optimizers:
    """Muon for the matrices inside the blocks, AdamW for embeddings, convolutions, norms and the head."""

    def __init__(self, model: DiffusionText, lr: float) -> None:
        named = list(model.blocks.named_parameters())
        matrices = [value for name, value in named if value.ndim == 2 and "modulation" not in name]
        chosen = {id(value) for value in matrices}
        others = [value for value in model.parameters() if id(value) not in chosen]
        self.base_lr = lr
        self.members: list[torch.optim.Optimizer] = [
            Muon(matrices, lr=lr),
            torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=0.01),
        ]

    def step(self, factor: float) -> None:
        for member in self.members:
            for group in member.param_groups:
                group["lr"] = self.base_lr * factor
            member.step()
            member.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        return [member.state_dict() for member in self.members]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        for member, state in zip(self.members, states, strict=True):
            member.load_state_dict(state)


def corrupt(clean: Tensor, sigma: Tensor, vocab_size: int) -> Tensor:
    """Replace each character by a uniformly drawn one with probability 1 - exp(-sigma)."""
    replaced = torch.rand(clean.shape) < 1 - torch.exp(-sigma)[:, None]
    return torch.where(replaced, torch.randint_like(clean, vocab_size), clean)


def draw_batch(ids: Tensor, config: Config, batch: int) -> tuple[Tensor, Tensor]:
    """Return random passages and a noise level for each, evenly spread over the schedule."""
    starts = torch.randint(0, len(ids) - config.block_size + 1, (batch, 1))
    clean = ids[starts + torch.arange(config.block_size)]
    t = (torch.rand(1) + torch.arange(batch) / batch) % 1
    return clean, config.sigma_min ** (1 - t) * config.sigma_max**t


class Training:
    """A model, its moving average and optimizers, the step reached and the seconds spent."""

    def __init__(self, config: Config, lr: float, checkpoint: Path) -> None:
        self.config = config
        self.model = DiffusionText(config)
        self.average = DiffusionText(config)
        self.average.load_state_dict(self.model.state_dict())
        self.optimizers = Optimizers(self.model, lr)
        self.checkpoint = checkpoint
        self.step = 0
        self.spent = 0.0

    def start_from(self, folder: Path) -> None:
        """Begin with trained weights instead of random ones."""
        trained, _ = load_model(folder)
        if trained.config != self.config:
            raise SystemExit(
                f"{folder} holds another model, {asdict(trained.config)}; expected {asdict(self.config)}: "
                "use the same text and options, or leave out --from"
            )
        self.model.load_state_dict(trained.state_dict())
        self.average.load_state_dict(trained.state_dict())

    def resume(self) -> None:
        """Go on from the checkpoint."""
        state = torch.load(self.checkpoint, weights_only=True)
        if state["config"] != asdict(self.config):
            raise SystemExit(
                f"{self.checkpoint} is of another model or text, {state['config']}; expected {asdict(self.config)}: "
                "use the same text and options, or another --run"
            )
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizers.load_state_dict(state["optimizers"])
        self.step, self.spent = state["step"], state["spent"]
        torch.set_rng_state(state["random"])
        print(f"resumed at step {self.step} after {self.spent / 60:.1f} minutes", flush=True)

    def save(self) -> None:
        """Write the checkpoint so that an interruption leaves the previous one whole."""
        state = {
            "config": asdict(self.config),
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizers": self.optimizers.state_dict(),
            "step": self.step,
            "spent": self.spent,
            "random": torch.get_rng_state(),
        }
        temporary = self.checkpoint.with_suffix(".tmp")
        torch.save(state, temporary)
        temporary.replace(self.checkpoint)

    def learn(self, ids: Tensor, batch: int, progress: float) -> float:
        """Take one step and return its loss; the learning rate falls to 0 as progress goes to 1."""
        clean, sigma = draw_batch(ids, self.config, batch)
        logits = self.model.predict_clean(corrupt(clean, sigma, self.config.vocab_size), sigma)
        loss = F.cross_entropy(logits.flatten(0, 1), clean.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        warmup = min(1, (self.step + 1) / WARMUP_STEPS)
        self.optimizers.step(warmup * (0.5 + 0.5 * math.cos(math.pi * progress)))
        self.step += 1
        decay = min(EMA_DECAY, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for kept, value in zip(self.average.parameters(), self.model.parameters(), strict=True):
                kept.lerp_(value, 1 - decay)
        return loss.item()


def train(training: Training, ids: Tensor, args: argparse.Namespace, on_save: Callable[[], None]) -> None:
    """Learn until the steps or minutes are over; print the loss and save from time to time."""
    last_saved = last_printed = last_time = time.monotonic()
    losses: list[float] = []
    while True:
        progress = training.step / args.steps if args.steps else training.spent / 60 / args.minutes
        if progress >= 1:
            break
        losses.append(training.learn(ids, args.batch, progress))
        now = time.monotonic()
        training.spent += now - last_time
        last_time = now
        if now - last_printed > PRINT_SECONDS:
            rate, mean = len(losses) / (now - last_printed), sum(losses) / len(losses)
            spent = training.spent / 60
            print(f"step {training.step}  {spent:.1f} min  loss {mean:.4f}  {rate:.2f} steps/s", flush=True)
            losses, last_printed = [], now
        if now - last_saved > CHECKPOINT_SECONDS:
            on_save()
            last_saved = now
    on_save()


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    text = args.text.read_text(encoding="utf-8")
    if len(text) < args.block_size:
        raise SystemExit(f"{args.text} has {len(text)} characters, at least {args.block_size} are needed")
    vocab = sorted(set(text))
    lookup = {character: index for index, character in enumerate(vocab)}
    ids = torch.tensor([lookup[character] for character in text])
    args.run.mkdir(parents=True, exist_ok=True)
    config = Config(len(vocab), args.block_size, args.layers, args.heads, args.width)
    training = Training(config, args.lr, args.run / "checkpoint.pt")
    if training.checkpoint.exists():
        training.resume()
    elif args.start is not None:
        training.start_from(args.start)
    parameters = sum(value.numel() for value in training.model.parameters())
    print(f"{parameters:,} parameters, {len(text):,} characters", flush=True)

    def save() -> None:
        training.save()
        save_model(training.average, vocab, words_of(text), args.run / "weights")

    train(training, ids, args, save)
    print(f"done: step {training.step}, {training.spent / 60:.1f} minutes, {args.run / 'weights'}", flush=True)


if __name__ == "__main__":
    main()

"""Mistakes in routing to experts and in conditioning on a time step."""

from __future__ import annotations

from typing import Any

import torch

from firstdiff.testing.zoo.edits import edit_function, set_weight
from firstdiff.testing.zoo.fault import Site, Subject, fault


@fault("one expert for two", "routing.top_k", on="moe")
def top_one(subject: Subject) -> Site:
    name, module = subject.of_kind("MixtralSparseMoeBlock")
    module.top_k = 1
    return Site(name)


@fault("expert weights not normalised", "routing.gate", on="moe")
def not_normalised(subject: Subject) -> Site:
    name, module = subject.of_kind("MixtralSparseMoeBlock")
    edit_function(module, "div", lambda _, weights, _total: weights)
    return Site(name)


@fault("experts swapped", "weights.differ", on="moe")
def swapped(subject: Subject) -> Site:
    name, module = subject.of_kind("MixtralSparseMoeBlock")
    one, other = module.experts[0], module.experts[1]
    for part in ("w1", "w2", "w3"):
        here, there = getattr(one, part), getattr(other, part)
        kept = here.weight.clone()
        set_weight(here, "weight", there.weight)
        set_weight(there, "weight", kept)
    return Site(f"{name}.experts.0.w1")


@fault("router rounded to bf16", "dtype.bf16", on="moe")
def router(subject: Subject) -> Site:
    name, module = subject.named("block_sparse_moe.gate")
    set_weight(module, "weight", module.weight.bfloat16().float())
    return Site(name)


@fault("timestep period", "scale.constant", on="diffusion")
def period(subject: Subject) -> Site:
    """Change the period of the time embedding; its logarithm shows first, as a constant factor."""
    module: Any = subject.model.get_submodule("time")
    module.max_period = subject.random.choice([1_000.0, 100.0])
    return Site("time")


@fault("timestep sine and cosine swapped", "layout.chunk_swap", on="diffusion")
def waves_swapped(subject: Subject) -> Site:
    def swapped_waves(function: Any, parts: Any, **named: Any) -> torch.Tensor:
        made: torch.Tensor = function([parts[1], parts[0]], **named)
        return made

    edit_function(subject.model.get_submodule("time"), "cat", swapped_waves)
    return Site("time")


@fault("timestep of 0 to 1", "scale.constant", on="diffusion")
def fraction(subject: Subject) -> Site:
    subject.inputs["t"] = subject.inputs["t"] / 1000
    return Site("root", given=True)

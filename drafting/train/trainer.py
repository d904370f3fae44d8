"""Trains a draft network: what makes hidden states of hidden states by Muon, the rest by AdamW.

Stops when its time or its steps are over, keeps a checkpoint every few minutes and goes on from the last one: the same
seed gives the same batches. Knows nothing of where sequences come from, nor of what is learned from them.
Muon: K. Jordan et al., 2024.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

Loss = Callable[[int], torch.Tensor]
"""Of batch number n: a scalar that knows its gradients."""

MATRIX_RATE = 0.01
VECTOR_RATE = 1.5e-3
WARM_UP = 100  # steps
COOL_DOWN = 0.6  # of all steps: the learning rate falls along a line to a twentieth
LEAST_RATE = 0.05
EVERY = 300.0  # seconds between checkpoints


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` in all, of which this run does as many as `seconds` allow. `rate`: of the usual learning rates; what is
    trained already is refined with less."""

    steps: int
    seconds: float = float("inf")
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Done:
    """`loss`: nats a token."""

    step: int
    loss: float


class Trainer:
    def __init__(self, network: nn.Module, loss: Loss, checkpoint: Path) -> None:
        self._network, self._loss, self._path = network, loss, checkpoint
        self._optimizers = _optimizers(network)
        self.step = 0
        if checkpoint.exists():
            self._resume()

    def run(self, plan: Plan) -> Iterator[Done]:
        """Step by step. The state is kept every few minutes and at the end; whoever leaves earlier may `keep` it."""
        started = kept = time.monotonic()
        while self.step < plan.steps and time.monotonic() - started < plan.seconds:
            yield self._advance(plan)
            if time.monotonic() - kept > EVERY:
                self.keep()
                kept = time.monotonic()
        self.keep()

    def keep(self) -> None:
        """Writes the checkpoint, whole or not at all; between two steps."""
        state = {
            "network": self._network.state_dict(),
            "optimizers": [one.state_dict() for one in self._optimizers],
            "step": self.step,
        }
        unfinished = self._path.with_suffix(".part")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, unfinished)
        os.replace(unfinished, self._path)

    def _advance(self, plan: Plan) -> Done:
        for optimizer, rate in zip(self._optimizers, (VECTOR_RATE, MATRIX_RATE), strict=False):
            for group in optimizer.param_groups:
                group["lr"] = rate * plan.rate * rate_share(self.step, plan.steps)
        loss = self._loss(self.step)
        loss.backward()
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return Done(self.step, loss.item())

    def _resume(self) -> None:
        state = torch.load(self._path, map_location="cpu", weights_only=True)
        self._network.load_state_dict(state["network"])
        for optimizer, kept in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.step = state["step"]


def step_seconds(network: nn.Module, loss: Loss) -> float:
    """About how long a step takes; the first, in which memory is found, does not count. The network stays as it is."""
    for _ in range(2):
        started = time.monotonic()
        loss(0).backward()
        network.zero_grad(set_to_none=True)
    return time.monotonic() - started


def rate_share(step: int, steps: int) -> float:
    """Of the full learning rate, at this of so many steps."""
    rising = min(1.0, (step + 1) / min(WARM_UP, max(1, steps // 10)))
    falling = min(1.0, max(LEAST_RATE, (steps - step) / (COOL_DOWN * steps)))
    return rising * falling


def _optimizers(network: nn.Module) -> list[torch.optim.Optimizer]:
    inner = [p for name, p in network.named_parameters() if _is_inner(name, p)]
    rest = [p for name, p in network.named_parameters() if not _is_inner(name, p)]
    muon = [torch.optim.Muon(inner, lr=MATRIX_RATE, weight_decay=0.01, momentum=0.95)] if inner else []
    return [torch.optim.AdamW(rest, lr=VECTOR_RATE, betas=(0.9, 0.95), weight_decay=0.0), *muon]


def _is_inner(name: str, parameter: nn.Parameter) -> bool:
    return parameter.ndim == 2 and not {"projection", "head"} & set(name.split("."))

"""How each kind of draft learns of lessons, and how well it guesses what the target says.

`acceptance`: the share of places where the draft's best token is the target's, given the true text before; for each
depth, that is for each guess that is made upon the one before. Knows nothing of files, nor of optimizers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import nn

from ghostdraft.drafting.train import losses
from ghostdraft.drafting.train.beginnings import Target
from ghostdraft.drafting.train.losses import TargetHead
from ghostdraft.drafting.train.network import DraftNetwork, EagleNetwork, MedusaHeads
from ghostdraft.drafting.train.sequences import Sampler
from ghostdraft.drafting.train.teacher import Exam, Lessons
from ghostdraft.drafting.train.trainer import Loss
from ghostdraft.models.types import IntArray

GUESSES = 3  # that an EAGLE makes one upon the other
STRIDE = 2  # of the places, so many apart are judged where each costs much
BATCH, TEXT_BATCH = 8, 16  # sequences
SETTLED = 3 / 4  # of a sequence: what has too little before it does not count


@dataclass(frozen=True, slots=True)
class Marks:
    """`loss`: nats a token; `acceptance` by depth."""

    loss: float
    acceptance: tuple[float, ...]


class Recipe(Protocol):
    """Tokens (B, T), and the target's states (B, T, hidden) behind each of them, normed."""

    @property
    def network(self) -> nn.Module: ...

    def loss(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor: ...

    def guesses(self, token_ids: torch.Tensor, states: torch.Tensor) -> Iterator[torch.Tensor]:
        """By depth (B, n, draft vocab): logits for the last n of the T places."""


@dataclass(frozen=True, slots=True)
class DraftModelRecipe:
    network: DraftNetwork
    head: TargetHead

    def loss(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        return losses.distilled(self.network, self.head, token_ids, states)

    def guesses(self, token_ids: torch.Tensor, states: torch.Tensor) -> Iterator[torch.Tensor]:  # noqa: ARG002
        yield self.network.head(self.network.hidden(token_ids))


@dataclass(frozen=True, slots=True)
class EagleRecipe:
    network: EagleNetwork
    head: TargetHead

    def loss(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        return losses.eagle(self.network, self.head, token_ids, states, GUESSES, STRIDE)

    def guesses(self, token_ids: torch.Tensor, states: torch.Tensor) -> Iterator[torch.Tensor]:
        for made in self.network.guesses(token_ids[:, 1:], states[:, :-1], GUESSES):
            yield self.network.draft.head(made)


@dataclass(frozen=True, slots=True)
class MedusaRecipe:
    network: MedusaHeads
    head: TargetHead

    def loss(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        return losses.medusa(self.network, self.head, states, STRIDE)

    def guesses(self, token_ids: torch.Tensor, states: torch.Tensor) -> Iterator[torch.Tensor]:  # noqa: ARG002
        made = self.network(states)
        for number in range(self.network.heads):
            yield self.head.logits(made[:, : -1 - number, number])


def recipe_for(network: nn.Module, head: TargetHead) -> Recipe:
    match network:
        case DraftNetwork():
            return DraftModelRecipe(network, head)
        case EagleNetwork():
            return EagleRecipe(network, head)
        case MedusaHeads():
            return MedusaRecipe(network, head)
    raise TypeError(f"a {type(network).__name__} is no draft")


def text_loss(network: DraftNetwork, target: Target, sampler: Sampler) -> Loss:
    """Of the tokens that stand there, those that the draft knows; the target is not asked."""
    places = torch.full((target.shape.vocab,), losses.IGNORED)
    places[torch.from_numpy(target.vocabulary).long()] = torch.arange(len(target.vocabulary))

    def loss(number: int) -> torch.Tensor:
        token_ids = torch.from_numpy(sampler.batch(number, TEXT_BATCH)).long()
        with fast_arithmetic():
            return losses.next_tokens(network, token_ids[:, :-1], places[token_ids[:, 1:]])

    return loss


def lesson_loss(recipe: Recipe, target: Target, lessons: Lessons, seed: int) -> Loss:
    """Batch number n is the same in every run with the same seed and lessons."""

    def loss(number: int) -> torch.Tensor:
        rng = np.random.default_rng((seed, number))
        picked = rng.choice(lessons.done, min(BATCH, lessons.done), replace=False)
        token_ids, states = _tensors(target.head, lessons, np.sort(picked).astype(np.int32))
        torch.manual_seed(number)
        with fast_arithmetic():
            return recipe.loss(token_ids, states)

    return loss


@torch.no_grad()
def marks(recipe: Recipe, target: Target, exam: Exam) -> Marks:
    vocabulary, found = torch.from_numpy(target.vocabulary), list[list[float]]()
    for number in range(exam.lessons.done):
        token_ids, states = _tensors(target.head, exam.lessons, np.array([number], np.int32))
        best = torch.from_numpy(exam.best[number])[None]
        torch.manual_seed(number)
        with fast_arithmetic():
            shares = [_share(vocabulary, made, best) for made in recipe.guesses(token_ids, states)]
            found.append([recipe.loss(token_ids, states).item(), *shares])
    loss, *acceptance = np.mean(found, axis=0).tolist()
    return Marks(loss, tuple(acceptance))


def _share(vocabulary: torch.Tensor, logits: torch.Tensor, best: torch.Tensor) -> float:
    """`best` (B, T): what the target says."""
    places = round(SETTLED * best.shape[1])
    guessed = vocabulary[logits[:, -places:].argmax(dim=-1)]
    return float((guessed == best[:, -places:]).float().mean())


def _tensors(head: TargetHead, lessons: Lessons, numbers: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
    token_ids, hidden = lessons.take(numbers)
    with torch.no_grad():
        return torch.from_numpy(token_ids).long(), head.states(torch.from_numpy(hidden))


@contextmanager
def fast_arithmetic() -> Iterator[None]:
    """In bfloat16, where the processor multiplies that faster than float32."""
    with warnings.catch_warnings(), torch.autocast("cpu", torch.bfloat16, enabled=_has_bfloat16()):
        warnings.filterwarnings("ignore", "Mismatch dtype")  # of norms, which stay in float32
        yield


def _has_bfloat16() -> bool:
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())

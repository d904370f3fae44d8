"""A small random target on the C engine, and every drafter beside it: drafts in files as users have them, which are
nearly always wrong, and some that are right."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.types import Cancel, Step, Verify
from ghostdraft.drafting import DrafterName
from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.datastore import Datastore
from ghostdraft.drafting.draft_model import DraftModel
from ghostdraft.drafting.growing import GrowingDrafter, Guesser
from ghostdraft.drafting.making import make
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.self_speculation import SelfSpeculation
from ghostdraft.drafting.train.export import Target as Wanted
from ghostdraft.drafting.train.export import save
from ghostdraft.drafting.train.network import DraftNetwork, EagleNetwork, MedusaHeads, Sizes
from ghostdraft.drafting.types import ANYTHING, Draft, Drafter, Opening, Verdict
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.cpu.convert import convert
from ghostdraft.models.cpu.drafts import StateHead, reduced_head
from ghostdraft.models.cpu.model import CpuModel
from ghostdraft.models.cpu.weights import Weights, read_weights
from ghostdraft.models.draft_file import ENDING, DraftKind
from ghostdraft.models.sampling import Sampling, best
from ghostdraft.models.store import HOME_VARIABLE, Store
from ghostdraft.models.types import FloatArray, IntArray, Interrupted, Pass, Shape
from tests.fakes import FLAT, FakeLoaded, Never, Tokens
from tests.models.small_models import stored, tokens

CONTEXT = 128
BY_NAME = tuple(name.value for name in DrafterName)
ITSELF, WHOLE, KNOWING, KNOWING_HYBRID = "the target itself", "all its layers", "knowing", "knowing hybrid"
DRAFTERS = (*BY_NAME, ITSELF, WHOLE, KNOWING, KNOWING_HYBRID)
COPYING = (DrafterName.NGRAM.value, DrafterName.CORPUS.value)
GROWING = tuple(name for name in DRAFTERS if name not in (DrafterName.NONE, *COPYING))


class Target(CpuModel):
    """May take fewer rows a pass, and be interrupted in the pass after so many more."""

    rows = 64
    left: int | None = None

    @property
    def max_rows(self) -> int:
        return self.rows

    def forward(
        self,
        token_ids: Sequence[int] | IntArray,
        logit_rows: Sequence[int] = (),
        parents: Sequence[int] | None = None,
        inputs: FloatArray | None = None,
        layers: int | None = None,
    ) -> Pass:
        if len(token_ids) > self.rows:
            raise ValueError(f"{len(token_ids)} rows in a pass of at most {self.rows}")
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Interrupted
        return super().forward(token_ids, logit_rows, parents, inputs, layers)


class Lettered:
    """A tokenizer: each token is a letter, and every third one has a blank before it."""

    FIRST = 0x100

    def encode(self, text: str, special: bool = False) -> list[int]:  # noqa: ARG002
        return [ord(letter) - self.FIRST for letter in text if letter != " "]

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        return "".join(" " * (token % 3 == 0) + chr(self.FIRST + token) for token in token_ids).encode()

    def spellings(self, count: int) -> list[bytes]:
        return [self.decode_bytes([token]) for token in range(count)]

    def token_id(self, token: str) -> int | None:  # noqa: ARG002
        return None


class Reference:
    """What the target says, one token at a time, in a cache of its own."""

    def __init__(self, weights: Weights) -> None:
        self._model = CpuModel(weights, CONTEXT + 1, threads=1)
        self._kept: list[int] = []
        self._known: dict[Tokens, FloatArray] = {}

    def logits(self, tokens: Tokens) -> FloatArray:
        """[vocab] behind them."""
        if tokens not in self._known:
            del self._kept[min(common_prefix(self._kept, tokens), len(tokens) - 1) :]
            self._model.truncate(len(self._kept))
            for token in tokens[len(self._kept) :]:
                found = self._model.forward([token], [0]).logits[0]
                self._model.keep([0])
            self._kept = list(tokens)
            self._known[tokens] = found.copy()
        return self._known[tokens]

    def best(self, tokens: Tokens) -> int:
        return best(self.logits(tokens))


class Knowing:
    """A `Guesser` that knows what the target says at two places of three, by their number, and is sure at all."""

    name = KNOWING

    def __init__(self, reference: Reference, vocab: int) -> None:
        self.vocabulary = np.arange(vocab, dtype=np.int32)
        self._reference = reference
        self._text: Tokens = ()

    def begin(self, token_ids: Sequence[int]) -> None:
        self._text = tuple(token_ids)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def follow(self) -> FloatArray:
        return self._logits(self._text)[None]

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:
        paths: list[Tokens] = []
        for token, parent in zip(token_ids, parents, strict=True):
            paths.append((*(paths[parent] if parent >= 0 else ()), token))
        return np.stack([self._logits((*self._text, *path)) for path in paths[-fresh:]])

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:  # noqa: ARG002
        self._text = (*self._text, *(draft.token_ids[i] for i in verdict.accepted), verdict.next_token)

    def _logits(self, tokens: Tokens) -> FloatArray:
        logits = np.zeros(len(self.vocabulary), np.float32)
        if len(tokens) <= CONTEXT:
            logits[(self._reference.best(tokens) + (len(tokens) % 3 == 0)) % len(logits)] = 9.0
        return logits


class Cast:
    """A target's checkpoint, with drafts of it in `home`."""

    def __init__(self, checkpoint: Checkpoint, home: Path) -> None:
        self.checkpoint, self.home = checkpoint, home
        self.reference = Reference(read_weights(checkpoint.cpu_weights))
        self.datastore = Datastore()
        for seed in range(12):
            self.datastore.put(str(seed), Lettered().decode_bytes(self._output(tokens(30, seed, self.vocab) * 2)))

    @property
    def vocab(self) -> int:
        return self.checkpoint.spec.shape.vocab

    def target(self, context: int = CONTEXT) -> Target:
        return Target(self.checkpoint.cpu_weights, context, threads=1)

    def drafter(self, name: str, target: Target) -> Drafter:
        if name in BY_NAME:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(HOME_VARIABLE, str(self.home))
                return make(name, FakeLoaded(self.checkpoint.spec, Lettered(), target), self.datastore)
        copiers = [NgramDrafter()] if name == KNOWING_HYBRID else []
        return GrowingDrafter(name, self._guesser(name, target), copiers)

    def _output(self, prompt: list[int]) -> Tokens:
        """With the prompt before it."""
        found = tuple(prompt)
        for _ in range(40):
            found = (*found, self.reference.best(found))
        return found

    def _guesser(self, name: str, target: Target) -> Guesser:
        everything = np.arange(self.vocab, dtype=np.int32)
        if name == ITSELF:
            return DraftModel(name, CpuModel(target.weights, 2 * CONTEXT, beside=target), everything)
        if name == WHOLE:
            head = StateHead(reduced_head(target, everything))
            return SelfSpeculation(name, target, target.shape.layers, head, everything)
        return Knowing(self.reference, self.vocab)


def guesser_of(drafter: Drafter) -> Guesser:
    assert isinstance(drafter, GrowingDrafter)
    assert drafter._guesser is not None
    return drafter._guesser


def hire(shape: Shape, folder: Path, known: int = 60) -> Cast:
    """Drafts know so many of the tokens."""
    checkpoint = stored(shape, folder)
    convert(checkpoint)
    drafts = Store(folder).folder(checkpoint.name) / "drafts"
    drafts.mkdir(parents=True)
    vocabulary = np.sort(np.random.default_rng(5).permutation(shape.vocab)[:known]).astype(np.int32)
    for kind, network in random_networks(shape, len(vocabulary)).items():
        save(drafts / f"{kind}{ENDING}", network, Wanted(checkpoint.name, shape), vocabulary, {})
    return Cast(checkpoint, folder)


def random_networks(shape: Shape, known: int) -> dict[DraftKind, nn.Module]:
    torch.manual_seed(11)
    embedding = torch.randn(shape.vocab, shape.hidden)
    sizes = Sizes(hidden=shape.hidden, layers=2, heads=2, kv_heads=1, mlp=64)
    networks = {
        DraftKind.DRAFT_MODEL: DraftNetwork(replace(sizes, hidden=64), embedding, known),
        DraftKind.EAGLE: EagleNetwork(DraftNetwork(replace(sizes, hidden=128), embedding, known), shape.hidden),
        DraftKind.MEDUSA: MedusaHeads(shape.hidden, heads=3),
    }
    with torch.no_grad():
        for parameter in (one for network in networks.values() for one in network.parameters()):
            parameter.add_(torch.randn_like(parameter) * (0.3 if parameter.ndim == 1 else 0.15))
    return networks


def written(steps: Sequence[Step]) -> list[int]:
    return [token for step in steps if isinstance(step, Verify) for token in step.token_ids]


def drafted(steps: Sequence[Step]) -> tuple[int, int]:
    """Tokens drafted, and those accepted."""
    judged = [step for step in steps if isinstance(step, Verify)]
    return sum(step.drafted for step in judged), sum(step.accepted for step in judged)


def decoder(cast: Cast, name: str, sampling: Sampling = Sampling.GREEDY, context: int = CONTEXT) -> Decoder:
    """Of a target of its own."""
    target = cast.target(context)
    return Decoder(target, cast.drafter(name, target), sampling, FLAT)


def steps_of(
    runner: Decoder,
    prompt: Sequence[int],
    most: int = 24,
    stop: Collection[int] = (),
    cancel: Cancel | None = None,
    opening: Opening = ANYTHING,
) -> list[Step]:
    return list(runner.run(prompt, (), most, stop, cancel or Never(), opening=opening))

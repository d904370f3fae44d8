"""Fakes small enough to read: models with a known next token, a tokenizer of bytes, drafters good and bad."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ghostdraft.completion.types import Budget, Cancel, Completion, DecodeStats, Snapshot, StopReason
from ghostdraft.drafting.types import ANYTHING, FREE, Draft, Opening, Price, Verdict
from ghostdraft.models.costs import Costs
from ghostdraft.models.sampling import Sampling, draw, probabilities
from ghostdraft.models.types import (
    CacheState,
    FloatArray,
    IntArray,
    LanguageModel,
    ModelSpec,
    Pass,
    Shape,
    Tokenizer,
)

Tokens = tuple[int, ...]
LogitsOf = Callable[[Tokens], FloatArray]  # what follows these tokens: [vocab]
Plan = Callable[[Tokens, int], Draft]  # all tokens so far, how many more may be drafted


def shape(vocab: int, context: int = 4096) -> Shape:
    return Shape("llama", 2, 8, 1, 1, 8, 16, vocab, context, 10_000.0, 1e-5, qkv_bias=False, tied=False)


ATTENTIVE = np.array([0.5, 0.5, 2.0, 0.3, 0.3]).reshape(5, 1, 1)  # values weigh most: the past must matter


class ByteTokenizer:
    """Token id = byte; special tokens stand behind them."""

    def __init__(self, special: Sequence[str] = ()) -> None:
        self.special = {name: 256 + i for i, name in enumerate(special)}

    def encode(self, text: str, special: bool = False) -> list[int]:
        for name, token in self.special.items() if special else ():
            before, found, after = text.partition(name)
            if found:
                return [*self.encode(before, special), token, *self.encode(after, special)]
        return list(text.encode())

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        names = {token: name.encode() for name, token in self.special.items()}
        return b"".join(names.get(token) or bytes([token]) for token in token_ids)

    def spellings(self, count: int) -> list[bytes]:
        return [self.decode_bytes([token]) for token in range(count)]

    def token_id(self, token: str) -> int | None:
        return self.special.get(token)


class CheckedModel:
    """Holds its callers to the contract of `LanguageModel`; what follows the tokens of a row is for `_logits`."""

    def __init__(self, vocab: int, context: int = 4096, max_rows: int = 32) -> None:
        self.shape = shape(vocab, context)
        self.context = context
        self.max_rows = max_rows
        self.length = 0
        self.closed = False
        self.passes: list[int] = []  # rows of each pass
        self._paths: list[Tokens] | None = None  # rows of the last pass: the rows that lead to each, itself the last

    def forward(
        self, token_ids: Sequence[int] | IntArray, logit_rows: Sequence[int] = (), parents: Sequence[int] | None = None
    ) -> Pass:
        tokens = tuple(int(token) for token in token_ids)
        parents = range(-1, len(tokens) - 1) if parents is None else parents
        if not 0 < len(tokens) <= self.max_rows or self.length + len(tokens) > self.context:
            raise ValueError(f"{len(tokens)} rows behind {self.length} tokens do not fit")
        assert len(parents) == len(tokens)
        assert all(-1 <= parent < i for i, parent in enumerate(parents))
        assert all(0 <= token < self.shape.vocab for token in tokens)
        paths: list[Tokens] = []
        for i, parent in enumerate(parents):
            paths.append((*(paths[parent] if parent >= 0 else ()), i))
        self.passes.append(len(tokens))
        self._paths = paths
        rows = self._rows(tokens, paths)
        empty = np.zeros((0, self.shape.vocab), np.float32)
        return Pass(np.stack([rows[i] for i in logit_rows]) if logit_rows else empty)

    def interrupt(self) -> None:
        raise AssertionError("nobody here runs a pass in another thread")

    def keep(self, rows: Sequence[int]) -> None:
        assert self._paths is not None, "keep needs a pass before it"
        path = tuple(rows)
        assert path == () or path == self._paths[path[-1]], "rows must be a path from the root"
        self._keep(path)
        self.length += len(path)
        self._paths = None

    def truncate(self, length: int) -> None:
        assert 0 <= length <= self.length
        self.length = length
        self._paths = None

    def save(self) -> CacheState:
        return CacheState(self.length, 1000 * self.length, (id(self), self._cached()))

    def restore(self, state: CacheState) -> None:
        owner, cached = state.content
        assert owner == id(self), "only the model that made a state can take it back"
        self.length = state.length
        self._paths = None
        self._cache_again(cached)

    def close(self) -> None:
        self.closed = True

    def _cached(self) -> Any:
        raise NotImplementedError

    def _cache_again(self, cached: Any) -> None:
        raise NotImplementedError

    def _rows(self, tokens: Tokens, paths: list[Tokens]) -> list[FloatArray]:
        raise NotImplementedError

    def _keep(self, path: Tokens) -> None:
        raise NotImplementedError


class FakeCosts:
    """Measured costs in memory."""

    def __init__(self, costs: Costs | None = None) -> None:
        self.kept = costs

    def read(self) -> Costs | None:
        return self.kept

    def write(self, costs: Costs) -> None:
        self.kept = costs


@dataclass(frozen=True)
class FakeLoaded:
    spec: ModelSpec
    tokenizer: Tokenizer
    model: LanguageModel
    device: str = "cpu"
    costs: FakeCosts = field(default_factory=FakeCosts)
    note: str = ""


class FakeModel(CheckedModel):
    """Its logits are a function of all tokens before; its KV cache is the list of those tokens."""

    def __init__(self, logits_of: LogitsOf, vocab: int, context: int = 4096, max_rows: int = 32) -> None:
        super().__init__(vocab, context, max_rows)
        self.kept: Tokens = ()
        self.logits = logits_of
        self._last: Tokens = ()

    def truncate(self, length: int) -> None:
        super().truncate(length)
        self.kept = self.kept[:length]

    def _rows(self, tokens: Tokens, paths: list[Tokens]) -> list[FloatArray]:
        self._last = tokens
        return [self.logits((*self.kept, *(tokens[i] for i in path))) for path in paths]

    def _keep(self, path: Tokens) -> None:
        self.kept = (*self.kept, *(self._last[i] for i in path))

    def _cached(self) -> Tokens:
        return self.kept

    def _cache_again(self, cached: Tokens) -> None:
        self.kept = cached


class TinyTransformer(CheckedModel):
    """Two layers of attention with keys and values really cached, in float64. A row is computed alone, by the same
    operations however many ride along, so that its logits do not depend on them."""

    def __init__(self, vocab: int, context: int = 32, max_rows: int = 16, hidden: int = 8, seed: int = 0) -> None:
        super().__init__(vocab, context, max_rows)
        rng = np.random.default_rng(seed)
        self._embed = rng.normal(size=(vocab, hidden))
        self._place = rng.normal(size=(context, hidden))
        self._head = rng.normal(scale=0.4, size=(hidden, vocab))
        self._layers = [rng.normal(size=(5, hidden, hidden)) * ATTENTIVE for _ in range(2)]
        self._cache = np.zeros((2, 2, context, hidden))  # layer, key or value, position, hidden
        self._new = np.zeros((2, 2, 0, hidden))

    def logits(self, tokens: Tokens) -> FloatArray:
        """What follows `tokens`, computed without any cache: [vocab]."""
        x = self._embed[list(tokens)] + self._place[: len(tokens)]
        future = np.triu(np.full((len(tokens), len(tokens)), -np.inf), 1)
        for query, key, value, up, down in self._layers:
            x = x + _softmax((x @ query) @ (x @ key).T + future) @ (x @ value)
            x = x + np.tanh(x @ up) @ down
        return self._say(x[-1])

    def _rows(self, tokens: Tokens, paths: list[Tokens]) -> list[FloatArray]:
        self._new = np.zeros((2, 2, len(tokens), self._embed.shape[1]))
        return [self._row(token, path) for token, path in zip(tokens, paths, strict=True)]

    def _row(self, token: int, path: Tokens) -> FloatArray:
        x = self._embed[token] + self._place[self.length + len(path) - 1]
        for layer, (query, key, value, up, down) in enumerate(self._layers):
            self._new[layer, :, path[-1]] = x @ key, x @ value
            keys, values = np.concatenate(
                (self._cache[layer, :, : self.length], self._new[layer][:, list(path)]), axis=1
            )
            x = x + _softmax(keys @ (x @ query)) @ values
            x = x + np.tanh(x @ up) @ down
        return self._say(x)

    def _say(self, x: np.ndarray) -> FloatArray:
        return (x / np.sqrt((x * x).mean()) @ self._head).astype(np.float32)

    def _keep(self, path: Tokens) -> None:
        self._cache[:, :, self.length : self.length + len(path)] = self._new[:, :, list(path)]

    def _cached(self) -> np.ndarray:
        return self._cache[:, :, : self.length].copy()

    def _cache_again(self, cached: np.ndarray) -> None:
        self._cache[:, :, : self.length] = cached


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def hashed_logits(vocab: int, seed: int = 0, memory: int = 3, spread: float = 1.5) -> LogitsOf:
    """Normal logits, fixed by the last `memory` tokens and how many tokens there are before them."""
    known: dict[tuple[int, Tokens], FloatArray] = {}

    def logits_of(tokens: Tokens) -> FloatArray:
        key = (len(tokens), tokens[-memory:])
        if key not in known:
            digest = hashlib.blake2b(repr((seed, key)).encode(), digest_size=8).digest()
            rng = np.random.default_rng(int.from_bytes(digest, "little"))
            known[key] = rng.normal(scale=spread, size=vocab).astype(np.float32)
        return known[key]

    return logits_of


def next_token_logits(vocab: int, next_token: Callable[[Tokens], int]) -> LogitsOf:
    """All weight on `next_token` of the tokens before."""

    def logits_of(tokens: Tokens) -> FloatArray:
        logits = np.zeros(vocab, np.float32)
        logits[next_token(tokens)] = 10.0
        return logits

    return logits_of


def paths(draft: Draft) -> list[tuple[int, ...]]:
    """Of each token, what stands from the root to it."""
    found: list[tuple[int, ...]] = []
    for token, parent in zip(draft.token_ids, draft.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


FLAT = Costs(0, verify=((1, 1.0),), prefill=((1, 1.0),))
"""Rows and drafts cost nothing, so that drafters are always asked."""


@dataclass
class FakeDrafter:
    """Proposes what `plan` makes of all tokens so far and the number allowed; remembers what it was told."""

    plan: Plan
    name: str = "fake"
    tokens: Tokens = ()
    verdicts: list[Verdict] = field(default_factory=list)
    allowed: list[int] = field(default_factory=list)

    def begin(self, token_ids: Sequence[int], buffers: Sequence[Sequence[int]], language: str = "") -> None:  # noqa: ARG002
        self.tokens = tuple(token_ids)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def propose(self, max_tokens: int, opening: Opening = ANYTHING, price: Price = FREE) -> Draft:  # noqa: ARG002
        self.allowed.append(max_tokens)
        return self.plan(self.tokens, max_tokens)

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        assert len(result.logits) == len(draft) + 1
        self.verdicts.append(verdict)
        self.tokens = (*self.tokens, *(draft.token_ids[i] for i in verdict.accepted), verdict.next_token)

    def reset(self) -> None:
        pass


def sampled_line(
    logits_of: LogitsOf, sampling: Sampling, rng: np.random.Generator, length: int
) -> Callable[..., Draft]:
    """A plan that draws a line from the model `logits_of` and says which distributions it drew from."""

    def plan(tokens: Tokens, max_tokens: int) -> Draft:
        drawn: list[int] = []
        probs = []
        for _ in range(min(length, max_tokens)):
            probs.append(probabilities(logits_of((*tokens, *drawn)), sampling))
            drawn.append(draw(probs[-1], rng))
        return Draft.line(drawn, np.stack(probs)) if drawn else Draft()

    return plan


class Beginning:
    """An opening: the next token has to be this one."""

    met = False
    left = b""

    def __init__(self, token: int) -> None:
        self.token = token

    def allowed(self) -> IntArray:
        return np.array([self.token], np.int32)

    def fits(self, token_ids: Sequence[int]) -> bool:
        return token_ids[0] == self.token

    def after(self, token_id: int) -> Opening:  # noqa: ARG002
        return ANYTHING


class Allowing:
    """The first tokens have to be among these, place by place."""

    def __init__(self, *places: Collection[int]) -> None:
        self.places = list(places)

    @property
    def met(self) -> bool:
        return not self.places

    @property
    def left(self) -> bytes:
        return b""

    def allowed(self) -> IntArray:
        return np.array(sorted(self.places[0]), np.int32)

    def fits(self, token_ids: Sequence[int]) -> bool:
        return all(token in place for token, place in zip(token_ids, self.places, strict=False))

    def after(self, token_id: int) -> Allowing:
        assert self.met or token_id in self.places[0] or not self.places[0]
        return Allowing(*self.places[1:])


class FakeClock:
    """Stands in for the module `time`, and goes on when it is told to."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter


class Never:
    """A cancel token that nobody sets."""

    def is_set(self) -> bool:
        return False


class CancelledAfter:
    """Set once it was looked at `times` times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


def line_before_cursor(snapshot: Snapshot) -> str:
    return snapshot.text[: snapshot.cursor].splitlines()[-1] if snapshot.cursor else ""


@dataclass
class FakeEngine:
    """Completes with what `says` makes of the snapshot, once `gate` is open, or stops when it is cancelled.

    `known` has all snapshots in order, `seen` those of requests, `ahead` those read ahead; `steps` is how many looks at
    the cancel token reading one ahead, or measuring, takes.
    """

    says: Callable[[Snapshot], str] = line_before_cursor
    gate: threading.Event = field(default_factory=threading.Event)
    seen: list[tuple[Snapshot, Budget]] = field(default_factory=list)
    known: list[Snapshot] = field(default_factory=list)
    ahead: list[Snapshot] = field(default_factory=list)
    cancelled: int = 0
    interrupted: int = 0
    steps: int = 0
    read: int = 0
    measured: bool = True
    note: str = ""
    on_gpu: bool = False
    closed: bool = False

    def interrupt(self) -> None:
        self.interrupted += 1

    def close(self) -> None:
        self.closed = True

    def complete(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> Completion:
        self.seen.append((snapshot, budget))
        self.known.append(snapshot)
        while not self.gate.is_set() and not cancel.is_set():
            time.sleep(0.001)
        self.cancelled += cancel.is_set()
        text, reason = ("", StopReason.CANCELLED) if cancel.is_set() else (self.says(snapshot), StopReason.LINE)
        return Completion(text, snapshot.cursor, snapshot.cursor, reason, DecodeStats(), text)

    def read_ahead(self, snapshot: Snapshot, budget: Budget, cancel: Cancel) -> None:  # noqa: ARG002
        self.ahead.append(snapshot)
        self.known.append(snapshot)
        self.read += self._worked(cancel)

    def measure(self, cancel: Cancel) -> None:
        self.measured = self._worked(cancel)

    def _worked(self, cancel: Cancel) -> bool:
        """Whether all steps were done before it was cancelled."""
        for _ in range(self.steps):
            if cancel.is_set():
                return False
            time.sleep(0.001)
        return True

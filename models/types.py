"""What flows out of `models`: specs of checkpoints, tokenizers, and the language model's one protocol.

This folder knows nothing of drafts, prompts, buffers or editors.

    ModelError                      what went wrong with a model, in a sentence that names the mend
    ├── ModelNotFound               no such name, file or hub id; or known, but not pulled yet
    ├── WeightsCorrupt              truncated, wrong checksum, wrong format
    ├── DownloadFailed              network, index, proxy, retries used up
    ├── OutOfSpace                  the disk cannot hold it
    ├── OutOfMemory                 the device cannot hold the model with this context
    │   └── WeightsTooLarge         nor its weights alone
    └── EngineUnavailable           no compiled kernel and no compiler, or the shape is not covered
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]


class ModelError(Exception):
    """Says what is wrong and how to mend it; the command line prints it as it is and exits with 2."""


class ModelNotFound(ModelError):
    pass


class WeightsCorrupt(ModelError):
    pass


class DownloadFailed(ModelError):
    pass


class OutOfSpace(ModelError):
    pass


class OutOfMemory(ModelError):
    pass


class WeightsTooLarge(OutOfMemory):
    pass


class EngineUnavailable(ModelError):
    pass


class Interrupted(Exception):
    """A pass ended early, as `LanguageModel.interrupt` wished; nothing of it is kept."""


class FimOrder(StrEnum):
    """In which order a fill-in-the-middle prompt gives its parts."""

    PREFIX_FIRST = "prefix-first"
    SUFFIX_FIRST = "suffix-first"


@dataclass(frozen=True, slots=True)
class FimTemplate:
    """One fill-in-the-middle prompt: the strings between are special tokens, `PREFIX` and `SUFFIX` the holes.

    `parts` for Qwen2.5-Coder, suffix first: ("<|fim_prefix|><|fim_suffix|>", SUFFIX, "<|fim_middle|>", PREFIX).
    """

    PREFIX = "{prefix}"
    SUFFIX = "{suffix}"

    order: FimOrder
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How the frequencies of RoPE are lowered for contexts beyond that of pretraining; see `rope`.

    All but the factor is for "llama3" and "yarn". `slow` and `fast` are turns over the context of pretraining:
    frequencies with fewer are divided by the factor, those with more are left alone.
    """

    kind: str  # "linear", "llama3", "yarn"
    factor: float
    context: int = 0  # of pretraining, tokens
    slow: float = 1.0
    fast: float = 1.0
    attention_factor: float = 1.0  # of cosines and sines
    truncate: bool = True  # yarn: its ramp begins and ends at whole indices


@dataclass(frozen=True, slots=True)
class Shape:
    """Hyperparameters of a decoder-only transformer; sizes in elements. The defaults are those of the plain Llama."""

    architecture: str  # a key of `ARCHITECTURES`, or the name of one that does not run here
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    context: int  # tokens
    rope_theta: float
    rms_eps: float  # LayerNorm's too
    qkv_bias: bool
    tied: bool  # the head shares the embedding's weights
    out_bias: bool = False  # behind attention
    mlp_bias: bool = False
    rope_scaling: RopeScaling | None = None
    window: int | None = None  # tokens that a row sees in sliding layers, itself included
    sliding_layers: tuple[int, ...] = ()
    query_scalar: float | None = None  # scores are divided by its root instead of head_dim's
    attention_cap: float | None = None  # scores s become cap * tanh(s / cap)
    logit_cap: float | None = None  # and logits so

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Shape:
        """From what `asdict` and JSON made of it."""
        scaling = fields.get("rope_scaling")
        sliding = tuple(fields.get("sliding_layers", ()))
        return cls(**{**fields, "rope_scaling": RopeScaling(**scaling) if scaling else None, "sliding_layers": sliding})


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What is known of a checkpoint beside its tensors."""

    name: str
    licence: str
    shape: Shape
    fim: tuple[FimTemplate, ...] = ()  # none: plain prefix completion; the first is used unless measured otherwise
    fim_source: str = "registry"  # "registry", "tokenizer" or "none"
    stop_tokens: tuple[int, ...] = ()
    special_tokens: tuple[int, ...] = ()  # never shown
    repo_token: str | None = None
    file_token: str | None = None
    bos_token: int | None = None
    drafts: tuple[str, ...] = ()  # names of models that fit as drafts


class Pass:
    """What one forward pass gave. `best`, where the device has looked for them: the token of each row's largest logit,
    [len(logit_rows)]; of equal ones the lowest id.
    """

    __slots__ = ("_hidden", "_logits", "best")

    def __init__(
        self,
        logits: FloatArray | Callable[[], FloatArray],
        hidden: Callable[[], FloatArray] | None = None,
        best: IntArray | None = None,
    ) -> None:
        """`logits` may be what brings them, if anybody asks; `hidden` is."""
        self._logits = logits
        self._hidden = hidden
        self.best = best

    @property
    def logits(self) -> FloatArray:
        """[len(logit_rows), vocab]"""
        if callable(self._logits):
            self._logits = self._logits()
        return self._logits

    @property
    def hidden(self) -> FloatArray | None:
        """[n, hidden] of the last layer, before the final norm; to be asked for before the next pass. None where the
        model tells none."""
        return self._hidden() if self._hidden else None


class Tokenizer(Protocol):
    def encode(self, text: str, special: bool = False) -> list[int]:
        """Token ids of `text`, without BOS; special tokens in the text are plain text unless `special`."""

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        """The exact UTF-8 bytes that the tokens stand for; a token may end inside a character."""

    def spellings(self, count: int) -> list[bytes]:
        """What `decode_bytes` says of each of the first `count` ids alone; much faster for many."""

    def token_id(self, token: str) -> int | None:
        """The id of one token by its name, special ones included."""


@dataclass(frozen=True, slots=True)
class CacheState:
    """A copy of a KV cache with `length` tokens in it, of use to the model that made it alone."""

    length: int
    nbytes: int
    content: Any


class LanguageModel(Protocol):
    """A model with a KV cache. Rows of a pass lie behind the `length` kept rows until `keep` or the next pass."""

    @property
    def shape(self) -> Shape: ...

    @property
    def context(self) -> int:
        """How many tokens the KV cache holds; at most `shape.context`."""

    @property
    def length(self) -> int:
        """How many tokens the KV cache keeps now."""

    @property
    def max_rows(self) -> int:
        """The largest number of rows of one pass."""

    def forward(
        self, token_ids: Sequence[int] | IntArray, logit_rows: Sequence[int] = (), parents: Sequence[int] | None = None
    ) -> Pass:
        """Runs n rows behind the kept ones. Row i follows row `parents[i]` of this pass, or the last kept token
        where that is -1; without `parents` the rows are one line. Its position is `length` plus its depth.

        A row's logits are independent of the other rows, of the chunking and of its place in the tree: to rounding,
        unless the model promises more.
        The pass is over when it returns, whether logits were asked for or not: callers take its time by the clock.
        Raises ValueError where the rows exceed `max_rows` or the context, Interrupted.
        """

    def interrupt(self) -> None:
        """From another thread: the pass that runs, if one does, may raise Interrupted soon instead of ending."""

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows of the last pass, a path from the root in ascending order; the others are forgotten.
        Raises ValueError for other rows."""

    def truncate(self, length: int) -> None:
        """Forgets every token from `length` on."""

    def save(self) -> CacheState:
        """A copy of what the KV cache keeps."""

    def restore(self, state: CacheState) -> None:
        """Keeps the tokens of `state` again, and nothing else."""

    def close(self) -> None:
        """Frees its memory. Nothing may be asked of it afterwards."""

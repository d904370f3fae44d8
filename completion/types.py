"""What flows through `completion`. Offsets are code points unless the name says otherwise. No torch, no LSP here."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` replaced the code points [start, end) of the text before it."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A document as it stood when the request was dispatched.

    `edits` lead, in order, from the last snapshot of this document that was handed out to this one;
    None where that chain is broken (opened anew, or replaced whole).
    """

    uri: str
    version: int
    language_id: str
    text: str
    cursor: int
    edits: tuple[Edit, ...] | None = None
    others: tuple[OtherBuffer, ...] = ()


@dataclass(frozen=True, slots=True)
class OtherBuffer:
    """Another open document, for drafters and cross-file context; most recently edited first."""

    uri: str
    language_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Context:
    """The part of the buffer that the model sees: `prefix` ends at the cursor, `suffix` begins there, or behind
    what only closes something."""

    prefix: str
    suffix: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """`lead`: the end of the text before the cursor that the tokens leave out; what the model writes begins with it."""

    token_ids: tuple[int, ...]
    max_new_tokens: int
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Prefill:
    """`token_ids` of the prompt were read. The first step of a run reads none, and says in `reused` how many the cache
    held already."""

    token_ids: tuple[int, ...]
    reused: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Verify:
    """`token_ids` were generated, at least one; a stop token can only be the last. Of `drafted` tokens a path from the
    draft's root was `accepted`: depths 0 to accepted - 1. `riding`: so many of the prompt's were read along with it.
    `drafting`: of its `seconds`, those in which it drafted. `asked`: whether anybody was asked for a draft.
    """

    token_ids: tuple[int, ...]
    drafted: int = 0
    accepted: int = 0
    riding: int = 0
    seconds: float = 0.0
    drafting: float = 0.0
    asked: bool = True


Step: TypeAlias = Prefill | Verify  # one pass of the model


class StopReason(StrEnum):
    """Why the text ends where it does; docs/settings.md explains each."""

    LINE = "line"  # the line is whole and opens no block
    BLOCK = "block"  # the block that the cursor's line opened, or stands in, is whole
    BRACKET = "bracket"  # the next closer belongs to a bracket opened before the cursor's text
    REPETITION = "repetition"  # it began to repeat itself or the lines that follow
    SUFFIX = "suffix"  # it reached the text that stands behind the cursor
    END_OF_TEXT = "end_of_text"  # the model said so
    MAX_TOKENS = "max_tokens"
    DEADLINE = "deadline"  # the language's budget ran out; what was whole is shown
    CANCELLED = "cancelled"
    OFF = "off"  # policy: secret file, language switched off, file too large
    EMPTY = "empty"  # nothing to say


class Trigger(StrEnum):
    AUTO = "auto"
    INVOKED = "invoked"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Budget:
    """`deadline`: `time.monotonic()` seconds, None for no limit (the user asked by hand). `line_enough`: from then on a
    whole line is enough, where more might follow."""

    max_tokens: int
    deadline: float | None = None
    line_enough: float | None = None


class Cancel(Protocol):
    """`threading.Event` is one."""

    def is_set(self) -> bool: ...


@dataclass(slots=True)
class DecodeStats:
    """Counts in tokens, times in milliseconds. `accepted_per_position[i]`: drafts accepted at depth i.

    Of the prompt's tokens `reused_tokens` were in the cache and `read_tokens` were read. `kept_tokens`: of those
    generated, how many the stop rules left standing. `draft_ms` is a part of `decode_ms`; in `undrafted_steps` nobody
    was asked for a draft, as that did not pay.
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    read_tokens: int = 0
    generated_tokens: int = 0
    kept_tokens: int = 0
    steps: int = 0
    undrafted_steps: int = 0
    drafted: int = 0
    accepted: int = 0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    draft_ms: float = 0.0
    total_ms: float = 0.0
    accepted_per_position: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Completion:
    """`text` replaces the code points [start, end) of the snapshot; empty text: nothing to show.

    start is the cursor; end is the cursor, or the end of its line where the text goes past what stands there.
    `ghost` is what the model wrote (the part that is new), `text` what is inserted.
    """

    text: str
    start: int
    end: int
    stop_reason: StopReason
    stats: DecodeStats
    ghost: str = ""

"""Text to token ids and back to the exact bytes, over the `tokenizers` package alone.

Knows byte-level BPE and sentencepiece-style BPE with byte fallback. Knows nothing of prompts or templates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import tokenizers

from ghostdraft.models.types import Tokenizer, WeightsCorrupt

_SPACE = "▁"  # sentencepiece's mark for a space
_SPACE_BYTES = _SPACE.encode()
_BETWEEN = "\ufffe"  # pieces: no character
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


def load(path: Path) -> Tokenizer:
    """The tokenizer of a stored `tokenizer.json`. Raises WeightsCorrupt where it cannot be read."""
    try:
        inner = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:
        raise WeightsCorrupt(f"{path} is not a readable tokenizer.") from error
    return BpeTokenizer(inner)


class BpeTokenizer:
    """A `Tokenizer`. `decode_bytes(encode(text))` is `text` in UTF-8; lone surrogates, and characters for whose bytes
    the vocabulary has no token (in some, control characters and unassigned planes), come back as U+FFFD."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        inner.encode_special_tokens = True  # in plain text they are text
        self._inner = inner
        added = inner.get_added_tokens_decoder()
        self._added = {id_: token.content.encode() for id_, token in added.items()}
        self._special = {token.content: id_ for id_, token in added.items() if token.special}
        self._special_pattern = _any_of(self._special)
        self._byte_fallback = bool(getattr(inner.model, "byte_fallback", False))
        self._inexpressible = _inexpressible(inner, self._byte_fallback)
        self._bytes_of: dict[int, bytes] = {}

    def encode(self, text: str, special: bool = False) -> list[int]:
        text = self._inexpressible.sub("\ufffd", text)
        if not special or self._special_pattern is None:
            return self._encode_plain(text)
        parts = self._special_pattern.split(text)
        ids = [self._encode_plain(part) if at % 2 == 0 else [self._special[part]] for at, part in enumerate(parts)]
        return [id_ for part in ids for id_ in part]

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        return b"".join(map(self._token_bytes, token_ids))

    def spellings(self, count: int) -> list[bytes]:
        spelled = self._spelled([self._inner.id_to_token(token_id) or "" for token_id in range(count)])
        for token_id, content in self._added.items():
            spelled[token_id : token_id + 1] = [content] if token_id < count else []
        return spelled

    def token_id(self, token: str) -> int | None:
        id_: int | None = self._inner.token_to_id(token)
        return id_

    def _encode_plain(self, text: str) -> list[int]:
        if not (self._byte_fallback and _SPACE in text):
            return list(self._inner.encode(text, add_special_tokens=False).ids)
        return self._encode_around_space_marks(text)

    def _encode_around_space_marks(self, text: str) -> list[int]:
        """A "▁" of the text itself would come back as a space: it goes in as its three bytes."""
        names = (f"<0x{byte:02X}>" for byte in _SPACE_BYTES)
        mark = [id_ for name in names if (id_ := self.token_id(name)) is not None]
        first, *others = (self._inner.encode(part, add_special_tokens=False).ids for part in text.split(_SPACE))
        return list(first) + [id_ for part in others for id_ in (*mark, *part)]

    def _token_bytes(self, token_id: int) -> bytes:
        known = self._bytes_of.get(token_id)
        if known is None:
            known = self._bytes_of[token_id] = self._look_up(int(token_id))
        return known

    def _look_up(self, token_id: int) -> bytes:
        """Rows by which a model's vocabulary is padded stand for nothing."""
        if token_id in self._added:
            return self._added[token_id]
        return self._spelled([self._inner.id_to_token(token_id) or ""])[0]

    def _spelled(self, pieces: Sequence[str]) -> list[bytes]:
        return list(map(_fallback_bytes, pieces)) if self._byte_fallback else _level_bytes(pieces)


def _any_of(tokens: dict[str, int]) -> re.Pattern[str] | None:
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if tokens else None


def _inexpressible(inner: tokenizers.Tokenizer, byte_fallback: bool) -> re.Pattern[str]:
    """Lone surrogates, and the characters that UTF-8 begins with a byte which the vocabulary lacks."""
    names = {byte: letter for letter, byte in _byte_of_letter().items()}
    if byte_fallback:
        names = {byte: f"<0x{byte:02X}>" for byte in range(0x80, 0x100)}
    missing = [byte for byte, name in names.items() if inner.token_to_id(name) is None]
    ranges = [
        "\ud800-\udfff",
        *(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in map(_begun_by, missing)),
    ]
    return re.compile(f"[{''.join(ranges)}]")


def _begun_by(byte: int) -> tuple[int, int]:
    """The first and last code point whose UTF-8 begins with `byte`; of bytes that begin none, the surrogates."""
    if byte < 0x80:
        return byte, byte
    for base, last, bits, lowest in ((0xC0, 0xDF, 6, 0x80), (0xE0, 0xEF, 12, 0x800), (0xF0, 0xF4, 18, 0x10000)):
        start = (byte - base) << bits
        if base <= byte <= last and start + (1 << bits) > lowest:
            return max(start, lowest), min(start + (1 << bits) - 1, 0x10FFFF)
    return 0xD800, 0xDFFF


def _fallback_bytes(piece: str) -> bytes:
    byte = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(_SPACE, " ").encode()


def _level_bytes(pieces: Sequence[str]) -> list[bytes]:
    """All at once, through Latin-1, where a character is a byte; alone only those with other characters."""
    latin = _BETWEEN.join(pieces).translate(_latin_of_letter()).split(_BETWEEN) if pieces else []
    return [
        one.encode("latin-1") if one.isascii() or max(one) < "\u0100" else _mixed_bytes(piece)
        for one, piece in zip(latin, pieces, strict=True)
    ]


def _mixed_bytes(piece: str) -> bytes:
    """Characters that are no letters stand for themselves."""
    table = _byte_of_letter()
    return b"".join(bytes([table[letter]]) if letter in table else letter.encode() for letter in piece)


@cache
def _latin_of_letter() -> dict[int, str]:
    """For each letter the character of Latin-1 that has its byte; what only looks like one of these becomes another."""
    letters = {ord(letter): chr(byte) for letter, byte in _byte_of_letter().items()}
    return dict.fromkeys(range(0x80, 0x100), "\uffff") | letters


@cache
def _byte_of_letter() -> dict[str, int]:
    """The 256 letters by which byte-level BPE writes bytes: printable Latin-1 is itself, the rest counts from U+0100
    (Radford et al. 2019)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + at): byte for at, byte in enumerate(others)}

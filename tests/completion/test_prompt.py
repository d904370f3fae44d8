"""Prompts: templates, what survives the next key, and the word that is left to the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.completion.context import STEPS, Window, gather
from ghostdraft.completion.prompt import LEAST_SUFFIX, STEP, Opening, Prompter, Spellings, for_model, unfinished
from ghostdraft.completion.types import Context, Prompt, Snapshot
from ghostdraft.drafting.types import Opening as AnyOpening
from ghostdraft.models.types import FimTemplate
from tests.completion.writing import MIDDLE, PREFIX_FIRST, SUFFIX_FIRST, TOKENIZER, spec_of
from tests.fakes import ByteTokenizer

BEHIND = "\n" + "z = 1\n" * LEAST_SUFFIX
SPECIAL = TOKENIZER.special


def build(prefix: str, suffix: str = BEHIND, fim: tuple[FimTemplate, ...] = (SUFFIX_FIRST,)) -> Prompt:
    return Prompter(spec_of(fim), TOKENIZER).build(Context(prefix, suffix), 8)


def test_suffix_first() -> None:
    expected = [SPECIAL["<|fim_prefix|>"], SPECIAL["<|fim_suffix|>"], *BEHIND.encode(), MIDDLE, *b"a\nx ="]
    assert list(build("a\nx = ").token_ids) == expected


def test_prefix_first() -> None:
    prompt = build("a\nx = ", fim=(PREFIX_FIRST,))
    expected = [SPECIAL["<|fim_prefix|>"], *b"a\nx =", SPECIAL["<|fim_suffix|>"], *BEHIND.encode(), MIDDLE]
    assert list(prompt.token_ids) == expected
    assert prompt.lead == " "


def test_no_template_or_hardly_any_suffix_gives_the_plain_text() -> None:
    assert list(build("a\nx1", fim=()).token_ids) == list(b"a\nx1")
    assert list(build("a\nx1", "\n" + "z\n" * (LEAST_SUFFIX - 1)).token_ids) == list(b"a\nx1")
    assert MIDDLE in build("a\nx", "rest\n").token_ids


def test_a_model_with_a_token_for_the_beginning_gets_it() -> None:
    spec = replace(spec_of(()), bos_token=7)
    assert Prompter(spec, TOKENIZER).build(Context("a1", ""), 8).token_ids == (7, *b"a1")


LINE = st.sampled_from(["def f(a, b):", "    return a + b", "", "x = [1, 2]", "    # one two three"])
LINES = st.lists(LINE, min_size=40, max_size=60)
PIECES = re.compile(r" ?[A-Za-z]+|\s+(?!\S)|\s+|[^\sA-Za-z]+")


@given(LINES, LINES, st.text("ab (.\n", min_size=1, max_size=30), st.sampled_from([(), (SUFFIX_FIRST,)]))
def test_a_key_changes_the_prompt_near_the_cursor_only(
    before: list[str], behind: list[str], typed: str, fim: tuple[FimTemplate, ...]
) -> None:
    """But for a step of the window, which comes once for many keys."""
    prompter, window = Prompter(spec_of(fim), TOKENIZER), Window(400, 200)
    head, tail = "\n".join(before) + "\n", "\n" + "\n".join(behind)
    steps = 0
    last = prompter.build(gather(at(head, tail), window), 8)
    for count in range(1, len(typed) + 1):
        now = prompter.build(gather(at(head + typed[:count], tail), window), 8)
        shown = len(typed[: count - 1].rpartition("\n")[2]) - len(
            last.lead
        )  # of the cursor's line, at the prompt's end
        stable = len(last.token_ids) - shown
        steps += now.token_ids[:stable] != last.token_ids[:stable]
        last = now
    assert steps <= 1 + len(typed) * STEPS // window.prefix


def at(before: str, behind: str) -> Snapshot:
    return Snapshot("file:///a", 1, "python", before + behind, len(before))


class WordTokenizer(ByteTokenizer):
    """Splits text into words, a blank before each being its own, before it looks for tokens: here, whole pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded: list[str] = []
        self._pieces: dict[int, bytes] = {}

    def encode(self, text: str, special: bool = False) -> list[int]:  # noqa: ARG002
        self.encoded.append(text)
        pieces = [piece.encode() for piece in PIECES.findall(text)]
        self._pieces.update((crc32(piece), piece) for piece in pieces)
        return list(map(crc32, pieces))

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        return b"".join(map(self._pieces.__getitem__, token_ids))


@given(LINES, st.integers(0, 2000))
def test_a_remembered_head_changes_no_token(lines: list[str], length: int) -> None:
    text = "\n".join(lines)[:length]
    whole = WordTokenizer().encode(text[: len(text) - len(unfinished(text))] or "\n")
    context = Context(text, "")
    assert list(Prompter(spec_of(()), WordTokenizer()).build(context, 8).token_ids) == whole


@pytest.mark.parametrize("text", ["some words of code\n" * 200, "f(x, 'item 1', value.name), " * 200])
def test_while_one_types_only_the_end_is_tokenised(text: str) -> None:
    tokenizer = WordTokenizer()
    prompter = Prompter(spec_of(()), tokenizer)
    prompter.build(Context(text, ""), 8)
    tokenizer.encoded.clear()
    for count in range(100):
        prompter.build(Context(text + "x " * count, ""), 8)
    assert sum(map(len, tokenizer.encoded)) < 100 * 3 * STEP


def test_a_tokenizer_that_marks_the_start_of_a_text_gets_it_whole() -> None:
    class Marking(WordTokenizer):
        def encode(self, text: str, special: bool = False) -> list[int]:
            return [10, *super().encode(text, special)]

    prompt = Prompter(spec_of(()), Marking()).build(Context("some words of code\n" * 200, ""), 8)
    assert prompt.token_ids.count(10) == 1


def test_suffix_first_keeps_everything_before_the_cursors_line() -> None:
    before, now = build("first line\n").token_ids, build("first line\nsecond = ").token_ids
    assert now[: len(before)] == before


@pytest.mark.parametrize(
    ("prefix", "lead"),
    [
        ("x = ", " "),
        ("\n        ", " "),
        ("\n\t\t", "\t"),
        ("x =", " ="),
        ("    retu", " retu"),
        ("retu", "retu"),
        ("\nretu", "retu"),
        ("self.", "."),
        ("self.check_ci", "_ci"),
        ("self.check_", "_"),
        ("self._it", "._it"),
        ("__init__(se", "__(se"),
        ("x = 'n", " 'n"),
        ("foo(bar", "(bar"),
        ("f(x)", ")"),
        ("f(x) ", " "),
        ("# " + "-" * 99, "-" * 24),
        ("x = 12", ""),
        ("x1", ""),
        ("\n", ""),
        ("привет мир", " мир"),
        ("", ""),
    ],
)
def test_an_unfinished_word_is_left_to_the_model(prefix: str, lead: str) -> None:
    prompt = build(prefix, fim=())
    assert prompt.lead == lead
    assert bytes(prompt.token_ids) == (prefix[: len(prefix) - len(lead)] or "\n").encode()


@given(st.text("ab_1. (\n\té", max_size=20))
def test_what_is_left_out_is_on_the_cursors_line(prefix: str) -> None:
    lead = unfinished(prefix)
    assert prefix.endswith(lead)
    assert "\n" not in lead


@pytest.mark.parametrize(
    ("lead", "token", "allowed"),
    [(" retu", " return", True), (" retu", " re", True), (" retu", " rest", False), (" retu", "return", False)],
)
def test_an_opening_allows_what_goes_on_with_it(lead: str, token: str, allowed: bool) -> None:
    assert list(Opening(lead.encode(), Spellings(ListTokenizer([token.encode()]), 1, {1})).allowed()) == [0] * allowed
    assert list(Opening(lead.encode(), Spellings(ListTokenizer([token.encode()]), 1, {0})).allowed()) == []


def test_an_opening_is_met_token_by_token() -> None:
    opening: AnyOpening = Opening("é(".encode(), Spellings(TOKENIZER, 256, ()))
    for token in "é(".encode():
        assert not opening.met
        assert list(opening.allowed()) == [token]
        opening = opening.after(token)
    assert opening.met
    assert opening.after(7) is opening


@pytest.mark.parametrize(
    ("written", "fits"),
    [("", True), ("a", True), ("ab", True), ("abc", True), ("abcd", True), ("b", False), ("ad", False)],
)
def test_what_fits_an_opening_goes_on_with_it_or_beyond_it(written: str, fits: bool) -> None:
    opening = Opening(b"abc", Spellings(TOKENIZER, 256, ()))
    assert opening.fits(list(written.encode())) == fits
    assert opening.after(ord("a")).fits(list(written[1:].encode())) == fits or written[:1] == "b"


@given(
    st.lists(st.text("aé😀 ", max_size=3), max_size=20),
    st.text("aé😀 ", min_size=1, max_size=4),
    st.sets(st.integers(0, 19)),
)
def test_the_tokens_along_a_text_are_those_that_begin_it_or_begin_with_it(
    words: list[str], text: str, hidden: set[int]
) -> None:
    spelled = [word.encode() for word in words]
    along = Spellings(ListTokenizer(spelled), len(words), hidden).along(text.encode())
    expected = [
        token
        for token, word in enumerate(spelled)
        if word and token not in hidden and (word.startswith(text.encode()) or text.encode().startswith(word))
    ]
    assert sorted(along) == expected


class ListTokenizer(ByteTokenizer):
    """Its tokens are these."""

    def __init__(self, spelled: Sequence[bytes]) -> None:
        super().__init__()
        self._spelled = spelled

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        return b"".join(self._spelled[token] for token in token_ids)


def test_what_a_model_gets_is_utf8_with_one_kind_of_line_break() -> None:
    assert for_model(f"a\r\nb\rc\n\f\x0b{chr(0xD83D)}\u2028") == "a\nb\nc\n\f\x0b\ufffd\u2028"

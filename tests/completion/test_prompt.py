"""Prompts: templates, what survives the next key, and the blank that is left to the model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.completion.prompt import LEAST_SUFFIX, Prompter, for_model
from ghostdraft.completion.types import Context
from ghostdraft.models.types import FimTemplate
from tests.completion.writing import MIDDLE, PREFIX_FIRST, SUFFIX_FIRST, TOKENIZER, spec_of

BEHIND = "\n" + "z = 1\n" * LEAST_SUFFIX
SPECIAL = TOKENIZER.special


def build(prefix: str, suffix: str = BEHIND, fim: tuple[FimTemplate, ...] = (SUFFIX_FIRST,), healed: bool = True):  # type: ignore[no-untyped-def]
    return Prompter(spec_of(fim), TOKENIZER).build(Context(prefix, suffix, "python", ""), 8, healed)


def test_suffix_first() -> None:
    expected = [SPECIAL["<|fim_prefix|>"], SPECIAL["<|fim_suffix|>"], *BEHIND.encode(), MIDDLE, *b"a\nx ="]
    assert list(build("a\nx =").token_ids) == expected


def test_prefix_first() -> None:
    prompt = build("a\nx = ", fim=(PREFIX_FIRST,))
    expected = [SPECIAL["<|fim_prefix|>"], *b"a\nx = ", SPECIAL["<|fim_suffix|>"], *BEHIND.encode(), MIDDLE]
    assert list(prompt.token_ids) == expected
    assert prompt.lead == ""


def test_no_template_or_hardly_any_suffix_gives_the_plain_text() -> None:
    assert list(build("a\nx", fim=()).token_ids) == list(b"a\nx")
    assert list(build("a\nx", "\n" + "z\n" * (LEAST_SUFFIX - 1)).token_ids) == list(b"a\nx")
    assert MIDDLE in build("a\nx", "rest\n").token_ids


def test_a_model_with_a_token_for_the_beginning_gets_it() -> None:
    spec = replace(spec_of(()), bos_token=7)
    assert Prompter(spec, TOKENIZER).build(Context("ab", "", "python", ""), 8).token_ids == (7, *b"ab")


@given(st.text("ab \n", max_size=20), st.sampled_from("ab \n"))
def test_what_is_called_stable_survives_the_next_key(prefix: str, key: str) -> None:
    for fim in ((), (SUFFIX_FIRST,), (PREFIX_FIRST,)):
        now, later = build(prefix, fim=fim), build(prefix + key, fim=fim)
        assert now.stable_prefix <= len(now.token_ids)
        assert now.token_ids[: now.stable_prefix] == later.token_ids[: now.stable_prefix]


def test_suffix_first_keeps_everything_before_the_cursors_line() -> None:
    prompt = build("first line\nsecond = ")
    assert len(prompt.token_ids) - prompt.stable_prefix == len("second =")


@pytest.mark.parametrize(
    ("prefix", "ends_with", "lead"),
    [
        ("x = ", b"x =", " "),
        ("\n        ", b"\n       ", " "),
        ("\n\t\t", b"\n\t", "\t"),
        ("x =", b"x =", ""),
        ("", b"\n", ""),
    ],
)
def test_the_blank_at_the_cursor_is_left_to_the_model(prefix: str, ends_with: bytes, lead: str) -> None:
    prompt = build(prefix, fim=())
    assert (bytes(prompt.token_ids), prompt.lead) == (ends_with, lead)
    assert bytes(build(prefix, fim=(), healed=False).token_ids) == (prefix or "\n").encode()


def test_what_a_model_gets_is_utf8_with_one_kind_of_line_break() -> None:
    assert for_model(f"a\r\nb\rc\n\f\x0b{chr(0xD83D)}\u2028") == "a\nb\nc\n\f\x0b\ufffd\u2028"

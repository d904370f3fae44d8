"""Tokenizers give back the exact bytes, agree with the publishers' own, and take no orders from text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, normalizers, pre_tokenizers

from ghostdraft.models import tokenizer, tokenizer_files
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.tokenizer import BpeTokenizer, _byte_of_letter, _level_bytes, _mixed_bytes
from ghostdraft.models.types import EngineUnavailable, Tokenizer, WeightsCorrupt
from tests.models.published import CONTROL, LETTERS, VOCAB, byte_level

DATA = Path(__file__).parent.parent / "data"
any_text = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("▁ \t\n\r_e\u0301<|fim>é😀"))


def pieces_of_llama() -> tokenizers.Tokenizer:
    """A sentencepiece-style tokenizer as published: a space before the first word, control tokens in the vocabulary."""
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    texts = ["▁", "a", "b", "é", "d", "e", "f", "s", "<", "/", ">", "▁a", "de", "def", "s>", "</", "▁<PRE>", "</s>"]
    vocab = {token: id_ for id_, token in enumerate(["<unk>", *byte_tokens, *texts])}
    merges = [("▁", "a"), ("d", "e"), ("de", "f"), ("s", ">"), ("<", "/"), ("</", "s>")]
    made = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.add_special_tokens([AddedToken("</s>", special=True, normalized=False)])
    made.add_tokens([AddedToken("▁<PRE>", special=False, normalized=False)])
    return made


def level_letter(byte: int) -> str:
    return next(letter for letter, known in _byte_of_letter().items() if known == byte)


def published(made: tokenizers.Tokenizer, folder: Path) -> BpeTokenizer:
    made.save(str(folder / "tokenizer.json"))
    return BpeTokenizer(tokenizer_files.from_published(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> BpeTokenizer:
    return published(byte_level(), tmp_path_factory.mktemp("levels"))


@pytest.fixture(scope="module")
def fallback(tmp_path_factory: pytest.TempPathFactory) -> BpeTokenizer:
    return published(pieces_of_llama(), tmp_path_factory.mktemp("fallback"))


@pytest.mark.parametrize("kind", ["levels", "fallback", "tiny_tokenizer"])
def test_all_spellings_at_once_are_those_of_each(kind: str, request: pytest.FixtureRequest) -> None:
    known: Tokenizer = request.getfixturevalue(kind)
    for count in (0, 3, 400):  # of the small ones more than there are
        assert known.spellings(count) == [known.decode_bytes([token_id]) for token_id in range(count)]


@pytest.mark.parametrize("piece", ["\xad", "\x80", " ", "Ж", "éЖ", "\uffff", ""])
def test_what_is_no_letter_stands_for_itself(piece: str) -> None:
    assert _level_bytes(["ab", piece, "Ġb"]) == [b"ab", _mixed_bytes(piece), b" b"]


@pytest.fixture(scope="module")
def tiny_tokenizer(tiny: Checkpoint) -> Tokenizer:
    return tokenizer.load(tiny.tokenizer_path)


@pytest.fixture(scope="module")
def starter_tokenizer(starter: Checkpoint) -> Tokenizer:
    return tokenizer.load(starter.tokenizer_path)


@pytest.mark.parametrize("kind", ["levels", "fallback", "tiny_tokenizer", "starter_tokenizer"])
@given(text=any_text)
@settings(deadline=None)
def test_any_text_comes_back_to_the_byte(kind: str, request: pytest.FixtureRequest, text: str) -> None:
    one: Tokenizer = request.getfixturevalue(kind)
    assert one.decode_bytes(one.encode(text)) == "".join(expressible(one, character) for character in text).encode()


def expressible(one: Tokenizer, character: str) -> str:
    """A byte-level vocabulary may lack bytes (that of `tiny` does): characters that need one are replaced."""
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(character)
    lacking = any(one.token_id(letter) is None for letter in letters[0][0]) and one.token_id("<0xFF>") is None
    return "\ufffd" if lacking else character


@given(texts=st.lists(any_text, max_size=4))
@settings(deadline=None)
def test_bytes_of_tokens_are_the_bytes_of_their_parts(tiny_tokenizer: Tokenizer, texts: list[str]) -> None:
    ids = [id_ for text in texts for id_ in tiny_tokenizer.encode(text)]
    assert tiny_tokenizer.decode_bytes(ids) == b"".join(tiny_tokenizer.decode_bytes([id_]) for id_ in ids)


@pytest.mark.parametrize(
    ("kind", "control"),
    [
        ("levels", CONTROL),
        ("fallback", ("</s>", "▁<PRE>")),
        ("tiny_tokenizer", ("<|im_start|>", "<file_sep>")),
        ("starter_tokenizer", ("<|fim_middle|>", "<|endoftext|>", "<|repo_name|>")),
    ],
)
def test_control_tokens_in_text_stay_text(kind: str, control: tuple[str, ...], request: pytest.FixtureRequest) -> None:
    one: Tokenizer = request.getfixturevalue(kind)
    ids = {token: one.token_id(token) for token in control}
    text = "def " + " ".join(control) + "".join(control)
    assert not set(one.encode(text)) & set(ids.values())
    assert one.encode("".join(control), special=True) == list(ids.values())
    assert one.decode_bytes(one.encode(text)) == text.encode()


def test_text_around_control_tokens_is_encoded_as_alone(starter_tokenizer: Tokenizer) -> None:
    parts = starter_tokenizer.encode("x = "), starter_tokenizer.encode("\n\nprint(x)")
    middle = starter_tokenizer.token_id("<|fim_middle|>")
    assert starter_tokenizer.encode("x = <|fim_middle|>\n\nprint(x)", special=True) == [*parts[0], middle, *parts[1]]


@pytest.mark.parametrize(
    ("kind", "file"), [("tiny_tokenizer", "smollm_tokens.json"), ("starter_tokenizer", "qwen2_tokens.json")]
)
def test_tokens_equal_those_of_the_publishers_tokenizer(kind: str, file: str, request: pytest.FixtureRequest) -> None:
    one: Tokenizer = request.getfixturevalue(kind)
    cases = json.loads((DATA / file).read_text("utf-8"))["cases"]
    assert len(cases) > 30
    assert [one.encode(text) for text, _ in cases] == [ids for _, ids in cases]


def test_half_a_character_is_half_its_bytes(levels: BpeTokenizer) -> None:
    first, *rest = levels.encode("é")
    assert levels.decode_bytes([first]) == "é".encode()[:1]
    assert levels.decode_bytes(rest) == "é".encode()[1:]


def test_lone_surrogates_become_replacement_characters(levels: BpeTokenizer) -> None:
    assert levels.decode_bytes(levels.encode("a\ud83db")) == "a\ufffdb".encode()


@pytest.mark.parametrize("byte", range(256))
def test_characters_that_need_a_missing_byte_are_replaced_and_no_others(byte: int) -> None:
    kept = "".join(letter for letter in LETTERS if letter != level_letter(byte))
    lame = BpeTokenizer(tokenizers.Tokenizer(models.BPE({letter: id_ for id_, letter in enumerate(kept)}, [])))
    for code_point in (0, 9, 0x41, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0x10000, 0x3FFFF, 0x10FFFF):
        text = chr(code_point)
        begins = text.encode()[0] == byte
        assert lame._inexpressible.sub("?", text) == ("?" if begins else text)


def test_ids_behind_the_vocabulary_stand_for_nothing(levels: BpeTokenizer) -> None:
    assert levels.decode_bytes([len(VOCAB) + 5]) == b""
    assert levels.token_id("no such token") is None


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text('{"model": {"type": "BPE"', "utf-8")
    with pytest.raises(WeightsCorrupt, match="not a readable tokenizer"):
        tokenizer.load(broken)
    with pytest.raises(WeightsCorrupt, match="not a readable tokenizer"):
        tokenizer_files.from_published(broken)


def test_a_tokenizer_that_cannot_give_bytes_back_is_refused(tmp_path: Path) -> None:
    made = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(EngineUnavailable):
        published(made, tmp_path)

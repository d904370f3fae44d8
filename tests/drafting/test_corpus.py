"""The corpus drafter: its paths follow places in the texts, whatever the tokens are, and change nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.prompt import Opening, Spellings
from ghostdraft.completion.types import Verify
from ghostdraft.drafting.corpus import CHANCES, DRAFT_LENGTH, CorpusDrafter
from ghostdraft.drafting.datastore import Datastore
from ghostdraft.drafting.making import make
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import ANYTHING, Draft, Drafter, Price, Verdict
from ghostdraft.models.registry import prefix_first
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import FimTemplate, ModelError, ModelSpec, Pass, Tokenizer
from tests.fakes import (
    ByteTokenizer,
    FakeLoaded,
    FakeModel,
    LogitsOf,
    Never,
    hashed_logits,
    next_token_logits,
    paths,
    shape,
)

MARKS = ("<PRE>", "<SUF>", "<MID>")
NOTHING = Pass(np.zeros((0, 256), np.float32))
CODE = b"def load(path):\n    with open(path) as file:\n        return json.load(file)\n"

texts = st.lists(st.sampled_from(["load(", "self.", "return ", "\n    ", "x", "é", " = "]), max_size=60).map("".join)


class PairTokenizer(ByteTokenizer):
    """Its tokens are pairs of bytes, above the single bytes, as far as they begin at the text's start."""

    def encode(self, text: str, special: bool = False) -> list[int]:
        content = bytes(super().encode(text, special))
        pairs = [256 + 256 * content[at] + content[at + 1] for at in range(0, len(content) - 1, 2)]
        return [*pairs, *content[len(content) - len(content) % 2 :]]

    def decode_bytes(self, token_ids: Sequence[int]) -> bytes:
        return b"".join(bytes([token] if token < 256 else divmod(token - 256, 256)) for token in token_ids)


def spec(*fim: FimTemplate) -> ModelSpec:
    return ModelSpec("fake", "none", shape(256 + len(MARKS)), fim)


def drafter(*texts: bytes, tokenizer: Tokenizer | None = None, spec: ModelSpec = spec()) -> CorpusDrafter:  # noqa: B008
    datastore = Datastore()
    for number, text in enumerate(texts):
        datastore.put(str(number), text)
    return CorpusDrafter(datastore, tokenizer or ByteTokenizer(), spec)


def begun(one: CorpusDrafter, written: bytes) -> CorpusDrafter:
    one.begin(list(written), [])
    return one


def test_what_followed_is_drafted_byte_by_byte() -> None:
    draft = begun(drafter(CODE), b"    with open(pa").propose(5)
    assert bytes(draft.token_ids) == b"th) a"
    assert draft.parents == tuple(range(-1, 4))
    assert draft.chances is not None
    assert draft.chances[0] == CHANCES[len("    with open(pa") // 4 - 1]
    assert list(draft.chances) == sorted(draft.chances, reverse=True)


def test_where_places_differ_both_are_drafted_and_the_more_frequent_is_likelier() -> None:
    one = begun(drafter(CODE, CODE, CODE.replace(b"path) as", b"name) as")), b"    with open(")
    draft = one.propose(DRAFT_LENGTH)
    first = {draft.token_ids[at]: (draft.chances or ())[at] for at in range(len(draft)) if draft.parents[at] == -1}
    assert set(first) == {ord("p"), ord("n")}
    assert first[ord("p")] == pytest.approx(2 / 3 * CHANCES[len("    with open(") // 4 - 1])
    assert first[ord("p")] > first[ord("n")]


def test_a_draft_goes_on_where_it_was_right_and_tokens_are_cut_anew_where_it_was_not() -> None:
    one = begun(drafter(CODE, tokenizer=PairTokenizer()), b"    with open(pa")
    draft = one.propose(4)
    assert PairTokenizer().decode_bytes(draft.token_ids) == b"th) as f"
    one.observe(draft, Verdict((0,), draft.token_ids[1]), NOTHING)
    assert PairTokenizer().decode_bytes(one.propose(3).token_ids) == b"as fil"
    one.observe(Draft(), Verdict((), ord("a")), NOTHING)
    assert PairTokenizer().decode_bytes(one.propose(3).token_ids) == b"s file"


def test_tokens_that_end_inside_a_character_go_on_with_nothing_until_it_is_whole() -> None:
    one = begun(drafter("größe = maß(größe)\n".encode()), "größe = maß(gr".encode())
    assert bytes(one.propose(2).token_ids) == "ö".encode()
    one.observe(Draft(), Verdict((), "ö".encode()[0]), NOTHING)
    assert one.propose(2) == Draft(chances=())
    one.observe(Draft(), Verdict((), "ö".encode()[1]), NOTHING)
    assert bytes(one.propose(2).token_ids) == "ß".encode()


def test_an_opening_is_looked_up_with_what_was_written() -> None:
    one = begun(drafter(CODE, b"    with opened() as x:"), b"    with")
    spellings = Spellings(ByteTokenizer(), 256, ())
    assert bytes(one.propose(5, Opening(b" open(", spellings)).token_ids) == b" open"
    assert bytes(one.propose(5, Opening(b" opened", spellings)).token_ids) == b" open"
    assert one.propose(9, Opening(b" closed", spellings)).token_ids == ()


def test_the_place_in_a_prompt_that_gives_the_suffix_last_is_before_the_mark() -> None:
    tokenizer = ByteTokenizer(MARKS)
    one = drafter(CODE, tokenizer=tokenizer, spec=spec(prefix_first(*MARKS)))
    prompt = "<PRE>    with open(pa<SUF>    return json.lo<MID>"
    one.begin(tokenizer.encode(prompt, special=True), [])
    assert bytes(one.propose(3).token_ids) == b"th)"
    one.begin(tokenizer.encode("    with open(pat", special=True), [])
    assert bytes(one.propose(3).token_ids) == b"h) "


def test_what_does_not_pay_is_not_drafted() -> None:
    one = begun(drafter(CODE), b"    with open(pa")
    assert one.propose(8, ANYTHING, Price(10.0, 0.2)).token_ids == ()


def test_it_is_made_with_a_datastore_only() -> None:
    loaded = FakeLoaded(spec(), ByteTokenizer(), FakeModel(hashed_logits(256), 256))
    assert make("corpus", loaded, Datastore()).name == "corpus"
    with pytest.raises(ModelError, match="workspace"):
        make("corpus", loaded)


@given(st.lists(texts, max_size=3), texts, st.integers(1, 16), st.sampled_from([ByteTokenizer(), PairTokenizer()]))
def test_every_path_follows_a_place_in_a_text(
    stored: list[str], written: str, most: int, tokenizer: ByteTokenizer
) -> None:
    one = begun(drafter(*(text.encode() for text in stored), tokenizer=tokenizer), written.encode())
    draft = one.propose(most)
    assert len(draft) <= most
    for path in paths(draft):
        followed = written.encode()[-8:] + tokenizer.decode_bytes(path)
        assert any(followed[2:] in text.encode() for text in stored)


def run(one: Drafter, model: FakeModel, prompt: bytes, most: int) -> tuple[list[int], int]:
    """The tokens written, and how many of them were drafted."""
    decoder = Decoder(model, one, Sampling.GREEDY)
    steps = [step for step in decoder.run(list(prompt), (), most, (), Never()) if isinstance(step, Verify)]
    return [token for step in steps for token in step.token_ids], sum(step.accepted for step in steps)


def copying(tokens: tuple[int, ...]) -> int:
    """The text again and again, with another letter now and then."""
    return CODE[len(tokens) % len(CODE)] if len(tokens) % 17 else ord("q")


@pytest.mark.parametrize(
    ("logits", "least"),
    [(next_token_logits(256, copying), 0.2), (hashed_logits(256), -1)],
    ids=["copying", "random"],
)
def test_drafted_is_one_by_one(logits: LogitsOf, least: float) -> None:
    model = FakeModel(logits, 256)
    plain, _ = run(NoDrafter(), model, CODE[:30], 120)
    drafted, accepted = run(drafter(CODE, CODE[::-1]), model, CODE[:30], 120)
    assert drafted == plain
    assert accepted > least * len(plain)

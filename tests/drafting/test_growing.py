"""Trees that a model grows: what pays is asked about, what comes out is a tree of chances, and what came is learned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostdraft.drafting import growing
from ghostdraft.drafting.growing import HOPE, MOST_NODES, GrowingDrafter
from ghostdraft.drafting.types import FREE, Draft, Price, Verdict
from ghostdraft.models.types import FloatArray, IntArray, Pass
from tests.fakes import Allowing, FakeClock, FakeDrafter, Tokens, hashed_logits, paths

VOCAB = 12
TEXT = (1, 2, 3)
Says = Callable[[Tokens], FloatArray]


class Told:
    """A `Guesser` that says what `says` makes of the tokens behind the text; an answer takes `seconds`."""

    name = "told"

    def __init__(self, says: Says, vocab: int = VOCAB, clock: FakeClock | None = None, seconds: float = 0.0) -> None:
        self.vocabulary: IntArray = np.arange(vocab, dtype=np.int32)
        self.rows: list[int] = []  # of each pass
        self._says, self._clock, self._seconds = says, clock, seconds

    def begin(self, token_ids: Sequence[int]) -> None:
        pass

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        pass

    def follow(self) -> FloatArray:
        return self._answer(1, [()])

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:
        return self._answer(len(token_ids), paths(Draft(tuple(token_ids), tuple(parents)))[-fresh:])

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        pass

    def _answer(self, rows: int, behind: Sequence[Tokens]) -> FloatArray:
        self.rows.append(rows)
        if self._clock:
            self._clock.now += self._seconds
        found: FloatArray = np.stack([self._says(path) for path in behind])
        return found


def sure(chance: float, token: Callable[[Tokens], int] = len) -> Says:
    """Of one token after the other, the rest is spread."""

    def says(path: Tokens) -> FloatArray:
        chances = np.full(VOCAB, (1 - chance) / (VOCAB - 1))
        chances[token(path) % VOCAB] = chance
        return np.log(chances).astype(np.float32)

    return says


def begun(guesser: Told | None, copiers: Sequence[FakeDrafter] = ()) -> GrowingDrafter:
    drafter = GrowingDrafter("grown", guesser, copiers)
    drafter.begin(TEXT, ())
    return drafter


def comes(drafter: GrowingDrafter, draft: Draft, accepted: tuple[int, ...], next_token: int) -> None:
    drafter.observe(draft, Verdict(accepted, next_token), Pass(np.zeros((1 + len(draft), VOCAB), np.float32)))


def passes(price: Price, chance: float = 0.9, most: int = 30, seconds: float = 0.0) -> int:
    """How often a model is asked for the third draft, once it is known what asking costs."""
    clock = FakeClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "time", clock)
        guesser = Told(sure(chance), clock=clock, seconds=seconds)
        drafter = begun(guesser)
        for _ in range(3):
            guesser.rows.clear()
            drafter.propose(most, price=price)
        return len(guesser.rows)


def test_a_sure_model_is_asked_on_and_an_unsure_one_is_not() -> None:
    known = [passes(Price(100.0, 0.0001), chance, seconds=0.001) for chance in (0.99, 0.8, 0.5, 0.2)]
    assert known[0] >= 5
    assert known == sorted(known, reverse=True)
    assert known[-1] <= 2


def test_where_passes_or_rows_are_dearer_less_is_grown() -> None:
    dearer_passes = [passes(Price(100.0, 0.0), seconds=seconds) for seconds in (0.0, 0.001, 0.002, 0.004, 0.008)]
    dearer_rows = [passes(Price(100.0, row)) for row in (0.0, 0.001, 0.002, 0.004, 0.008)]
    for found in (dearer_passes, dearer_rows):
        assert found == sorted(found, reverse=True)
        assert found[0] > found[2] > found[-1] == 0


@pytest.mark.parametrize("most", range(5))
def test_no_more_is_asked_than_may_be_drafted(most: int) -> None:
    guesser = Told(hashed_logits(VOCAB, spread=4.0))
    draft = begun(guesser).propose(most)
    assert len(draft) == most
    assert len(guesser.rows) <= most
    assert all(rows < most for rows in guesser.rows[1:])


def test_a_bushy_tree_ends_too() -> None:
    guesser = Told(lambda _: np.zeros(VOCAB, np.float32))  # all of them are named, and none stands out
    drafter = begun(guesser)
    drafter.propose(64)
    assert max(guesser.rows) < MOST_NODES


CHANCES = st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6)
PLANS = st.lists(st.tuples(st.integers(-1, 4), st.integers(0, VOCAB - 1)), max_size=6)


def copied(plan: list[tuple[int, int]], chances: list[float]) -> Draft:
    """A tree; chances fall from parents to children."""
    parents = [min(parent, i - 1) for i, (parent, _) in enumerate(plan)]
    whole: list[float] = []
    for parent, chance in zip(parents, chances, strict=False):
        whole.append(chance * (whole[parent] if parent >= 0 else 1.0))
    return Draft(tuple(token for _, token in plan), tuple(parents), chances=tuple(whole))


@given(PLANS, CHANCES, st.integers(0, 99), st.integers(0, 40), st.booleans(), st.sampled_from([0.3, 2.0, 6.0]))
def test_a_draft_is_a_tree_of_chances(
    plan: list[tuple[int, int]], chances: list[float], seed: int, most: int, alone: bool, spread: float
) -> None:
    copier = FakeDrafter(lambda _, room: copied(plan, chances).first(room))
    drafter = begun(None if alone else Told(hashed_logits(VOCAB, seed, spread=spread)), [copier])
    for _ in range(3):
        draft = drafter.propose(most)
        assert_tree_of_chances(draft, most)
        comes(drafter, draft, (), seed % VOCAB)


def assert_tree_of_chances(draft: Draft, most: int) -> None:
    assert draft.chances is not None
    assert len(draft) <= most
    assert len(set(paths(draft))) == len(draft)
    assert list(draft.chances) == sorted(draft.chances, reverse=True)
    below: defaultdict[int, float] = defaultdict(float)
    for i, (parent, chance) in enumerate(zip(draft.parents, draft.chances, strict=True)):
        assert -1 <= parent < i
        assert 0.0 <= chance <= (draft.chances[parent] if parent >= 0 else 1.0)
        below[parent] += chance
    for parent, total in below.items():
        assert total <= (draft.chances[parent] if parent >= 0 else 1.0) + 1e-9


def test_what_is_copied_and_likely_is_grown_on() -> None:
    copier = FakeDrafter(lambda *_: Draft.line((7,), chances=(0.3,)))
    found = paths(begun(Told(sure(0.9, lambda path: 7 + len(path))), [copier]).propose(6))
    assert found == [(7,), (7, 8), (7, 8, 9), (7, 8, 9, 10), (7, 8, 9, 10, 11), (7, 8, 9, 10, 11, 0)]


def test_only_tokens_that_an_opening_allows_are_named() -> None:
    draft = begun(Told(hashed_logits(VOCAB))).propose(12, Allowing({4, 5}, {6}))
    assert {path[0] for path in paths(draft)} == {4, 5}
    assert {path[1] for path in paths(draft) if len(path) > 1} == {6}
    assert len(begun(Told(hashed_logits(VOCAB))).propose(12, Allowing({40}))) == 0  # it knows no such token


def first_chance(drafter: GrowingDrafter) -> float:
    draft = drafter.propose(4)
    assert draft.chances
    return draft.chances[0]


def test_who_is_always_wrong_is_believed_less_and_who_is_right_more() -> None:
    right, wrong = (begun(Told(sure(0.7))) for _ in range(2))
    before = first_chance(right)
    for _ in range(200):
        comes(right, right.propose(4), (), 0)
        comes(wrong, wrong.propose(4), (), 5)
    assert first_chance(wrong) < 0.6 < before < first_chance(right)


@pytest.mark.parametrize("learned_in", ["python", "go"])
def test_what_is_learned_is_the_languages(learned_in: str) -> None:
    drafter = GrowingDrafter("grown", Told(sure(0.7)))
    drafter.begin(TEXT, (), learned_in)
    for _ in range(100):
        comes(drafter, drafter.propose(4), (), 5)
    drafter.begin(TEXT, (), "python")
    assert (first_chance(drafter) < 0.65) == (learned_in == "python")
    drafter.reset()
    drafter.begin(TEXT, (), "python")
    assert first_chance(drafter) == pytest.approx(0.7)


@pytest.mark.parametrize("drafts", [0, 1])
def test_nothing_is_learned_of_a_step_without_a_draft(drafts: int) -> None:
    """Whoever drafts rests at times, and the last draft was judged already."""
    drafter = begun(Told(sure(0.7)))
    for _ in range(drafts):
        comes(drafter, drafter.propose(4), (), 0)
    before = first_chance(drafter)
    drafter.begin(TEXT, ())  # that draft was never judged
    for _ in range(300):
        comes(drafter, Draft(), (), 5)
    assert first_chance(drafter) == before


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_model_that_tells_no_numbers_names_nothing_and_spoils_nothing(number: float) -> None:
    broken = True

    def says(path: Tokens) -> FloatArray:
        return np.full(VOCAB, number, np.float32) if broken else sure(0.9)(path)

    drafter = begun(Told(says), [FakeDrafter(lambda *_: Draft.line((0, 1), chances=(0.3, 0.2)))])
    for _ in range(5):
        draft = drafter.propose(6)
        assert paths(draft) == [(0,), (0, 1)]
        comes(drafter, draft, (0,), 5)
    broken = False
    assert_tree_of_chances(drafter.propose(6), 6)
    assert len(drafter.propose(6)) == 6


@pytest.mark.parametrize("vocab", [1, 2])
def test_a_vocabulary_of_next_to_nothing_is_enough(vocab: int) -> None:
    assert len(begun(Told(lambda _: np.zeros(vocab, np.float32), vocab)).propose(6)) == 6


def test_who_never_knew_is_left_alone_and_tried_again_some_day() -> None:
    price, wrong, asked = Price(100.0, 0.002), sure(0.9, lambda _: 3), list[int]()
    guesser = Told(wrong)
    drafter = begun(guesser)
    for _ in range(3000):
        draft = drafter.propose(4, price=price)
        asked.append(len(guesser.rows))
        guesser.rows.clear()
        comes(drafter, draft, (), 9)
    assert price.token < HOPE
    assert sum(asked[:100]) > 10
    assert 0 < sum(map(bool, asked[1000:])) < 200


def test_hybrid_without_a_model_copies_only() -> None:
    copier = FakeDrafter(lambda *_: Draft.line((7, 8), chances=(0.9, 0.8)))
    draft = begun(None, [copier]).propose(5, price=FREE)
    assert draft.token_ids == (7, 8)
    assert draft.chances == pytest.approx((0.9, 0.8))

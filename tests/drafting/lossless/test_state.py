"""What a guesser and the target hold after any history is what they would hold of the same text alone, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ghostdraft.completion.decode import Decoder
from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.draft_model import DraftModel
from ghostdraft.drafting.eagle import Eagle
from ghostdraft.drafting.growing import GrowingDrafter, Guesser
from ghostdraft.drafting.medusa import Medusa
from ghostdraft.drafting.types import Draft, Verdict
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import FloatArray, Pass
from tests.drafting.lossless.cast import (
    CONTEXT,
    GROWING,
    ITSELF,
    WHOLE,
    Cast,
    Target,
    decoder,
    guesser_of,
    steps_of,
    written,
)
from tests.drafting.lossless.test_greedy import EDITS, Writer
from tests.fakes import FLAT, CancelledAfter
from tests.models.small_models import extend, tokens

pytestmark = pytest.mark.usefixtures("hurried")

WITH_STATE = ("draft-model", "self", "medusa", "eagle", ITSELF, WHOLE)


class Watched:
    """A `Guesser` that is held, at each question, against a fresh one which was told the same text."""

    def __init__(self, warm: Guesser, fresh: Callable[[], tuple[Guesser, Target]]) -> None:
        self.name, self.vocabulary = warm.name, warm.vocabulary
        self._warm, self._fresh = warm, fresh
        self._text: list[int] = []
        self._cold: Guesser | None = None
        self._heard: list[bool] = []  # behind which tokens of the text the target's states were told

    def begin(self, token_ids: Sequence[int]) -> None:
        self._heard = self._heard[: common_prefix(self._text, token_ids)]
        self._text = list(token_ids)
        self._warm.begin(token_ids)

    def read(self, at: int, token_ids: Sequence[int], result: Pass) -> None:
        if isinstance(self._warm, Medusa):  # remembers no others of the prompt
            self._heard = []
            self._hear(at + len(token_ids) - 1, 1)
        else:
            self._hear(at, len(token_ids))
        self._warm.read(at, token_ids, result)

    def follow(self) -> FloatArray | None:
        found = self._warm.follow()
        if found is None:
            assert not self._knows()
            return None
        found = found.copy()
        self._cold = self._as_cold()
        if self._cold is None:
            return found
        expected = self._cold.follow()
        assert expected is not None
        assert (found == expected).all()
        return found

    def expand(self, token_ids: Sequence[int], parents: Sequence[int], fresh: int) -> FloatArray:
        found = self._warm.expand(token_ids, parents, fresh).copy()
        if self._cold:
            assert (found == self._cold.expand(token_ids, parents, fresh)).all()
        return found

    def observe(self, draft: Draft, verdict: Verdict, result: Pass) -> None:
        came = [*(draft.token_ids[i] for i in verdict.accepted), verdict.next_token]
        known = len(result.hidden if result.hidden is not None else ()) - len(draft)
        self._hear(len(self._text) - known, known + len(came) - 1)
        self._text += came
        self._warm.observe(draft, verdict, result)

    def _hear(self, at: int, count: int) -> None:
        self._heard += [False] * (at - len(self._heard))
        self._heard[at:] = [True] * count

    def _knows(self) -> bool:
        """Whether nothing is missing that it could tell from."""
        at = len(self._text) - 2
        if isinstance(self._warm, Eagle):
            return at >= 0
        return not isinstance(self._warm, Medusa) or (0 <= at < len(self._heard) and self._heard[at])

    def _as_cold(self) -> Guesser | None:
        """A fresh one that was told the text, as far as it reaches in the warm one's window; None where the warm one
        has to do without some of the states."""
        last, warm = len(self._text) - 2, self._warm
        if isinstance(warm, Eagle) and not (last < len(self._heard) and all(self._heard[warm._start :])):
            return None
        cold, target = self._fresh()
        cold.begin(self._text)
        first = 0
        if isinstance(cold, DraftModel | Eagle) and isinstance(self._warm, DraftModel | Eagle):
            first = cold._start = self._warm._start
        for rows in (range(first), range(first, len(self._text) - 1)):
            for at in rows[:: target.rows]:
                chunk = self._text[at : min(at + target.rows, rows.stop)]
                result = target.forward(chunk)
                if at >= first:
                    cold.read(at, chunk, result)
                target.keep(range(len(chunk)))
        return cold


@pytest.mark.parametrize("name", WITH_STATE)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(st.tuples(EDITS, st.none() | st.integers(0, 5)), min_size=1, max_size=6))
def test_a_guesser_with_a_past_says_what_a_fresh_one_says(
    name: str, cast: Cast, edits: list[tuple[tuple[str, int, int], int | None]]
) -> None:
    def fresh() -> tuple[Guesser, Target]:
        target = cast.target()
        return guesser_of(cast.drafter(name, target)), target

    runner, writer = decoder(cast, name), Writer()
    watched = Watched(guesser_of(runner.drafter), fresh)
    runner.drafter = GrowingDrafter(name, watched)
    for edit, looks in edits:
        prompt = list(writer.does(*edit))
        cancel = None if looks is None else CancelledAfter(looks)
        writer.suggested = written(steps_of(runner, prompt, 8, cancel=cancel))


class Careless(Target):
    """Keeps the first rows of a pass where those of a path were to be kept."""

    def keep(self, rows: Sequence[int]) -> None:
        first = np.arange(len(rows), dtype=np.int32)
        self._engine.gd_keep(self._handle, first.ctypes.data, len(first))


def differences(cast: Cast, runner: Decoder, text: Sequence[int]) -> list[int]:
    """Rolled back to each length, the longest first: at which ones the target then says of the next token what it would
    not say in an empty cache."""
    expected, found = extend(cast.target(), text[:CONTEXT]), []
    for length in reversed(range(runner.model.length)):
        runner.model.truncate(length)
        if (runner.model.forward(text[length : length + 1], [0]).logits != expected[length]).any():
            found.append(length)
    return found


@pytest.mark.parametrize("name", GROWING)
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(EDITS, min_size=1, max_size=4), looks=st.none() | st.integers(0, 5))
def test_rolled_back_to_any_length_the_cache_is_as_if_read_cold(
    name: str, cast: Cast, edits: list[tuple[str, int, int]], looks: int | None
) -> None:
    runner, writer = decoder(cast, name), Writer()
    for edit in edits:
        prompt = list(writer.does(*edit))
        cancel = None if looks is None else CancelledAfter(looks)
        writer.suggested = written(steps_of(runner, prompt, 12, cancel=cancel))
    assert differences(cast, runner, [*prompt, *writer.suggested]) == []


@pytest.mark.parametrize("name", [ITSELF, WHOLE])
def test_a_cache_that_keeps_other_rows_than_the_accepted_ones_is_seen(name: str, cast: Cast) -> None:
    target = Careless(cast.checkpoint.cpu_weights, CONTEXT, threads=1)
    runner = Decoder(target, cast.drafter(name, target), Sampling.GREEDY, FLAT)
    prompt = tokens(40)
    output = written(steps_of(runner, prompt, 40))
    assert differences(cast, runner, [*prompt, *output])

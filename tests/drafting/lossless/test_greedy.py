"""Greedy output with each drafter is token for token what the target writes by itself, one token at a time, whatever
was read, drafted, cancelled or interrupted before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ghostdraft.drafting.types import ANYTHING
from tests.drafting.lossless.cast import CONTEXT, DRAFTERS, Cast, Target, decoder, steps_of, written
from tests.fakes import Allowing, CancelledAfter
from tests.models.small_models import VOCAB, tokens

pytestmark = pytest.mark.usefixtures("hurried")

STEM = [*tokens(30, 1), *tokens(12, 2), *tokens(30, 1)]  # some of it twice, for those who copy


@dataclass
class Writer:
    """Somebody who edits a text and looks at another one in between."""

    text: list[int] = field(default_factory=lambda: STEM[:40])
    other: list[int] = field(default_factory=lambda: tokens(50, 3))
    suggested: list[int] = field(default_factory=list)

    def does(self, deed: str, at: int, token: int) -> list[int]:
        """What the text is then."""
        middle = at * len(self.text) // 100
        match deed:
            case "type":
                self.text = [*self.text, *tokens(1 + at % 4, token)]
            case "take":
                self.text = [*self.text, *self.suggested[: 1 + at % 8]]
            case "paste":
                self.text = [*self.text, *STEM[at % 60 :]]
            case "delete":
                self.text = self.text[: -1 - at % 30]
            case "change":
                self.text = [*self.text[:middle], token, *self.text[middle + 1 :]]
            case "insert":
                self.text = [*self.text[:middle], token, *self.text[middle:]]
            case "turn":
                self.text, self.other = self.other, self.text
        self.text = self.text[:CONTEXT] or [token]
        return self.text


DEEDS = ("type", "take", "paste", "delete", "change", "insert", "turn", "again")
EDITS = st.tuples(st.sampled_from(DEEDS), st.integers(0, 99), st.integers(0, VOCAB - 1))
TOKENS = st.sets(st.integers(0, VOCAB - 1), min_size=1, max_size=30)


@dataclass(frozen=True)
class Conditions:
    """Of a run: it may be cancelled at a look, interrupted in a pass, held to an opening."""

    most: int = 20
    stop: frozenset[int] = frozenset()
    rows: int = 64
    looks: int | None = None
    passes: int | None = None
    opening: tuple[Collection[int], ...] = ()


CONDITIONS = st.builds(
    Conditions,
    st.integers(1, 24),
    st.frozensets(st.integers(0, VOCAB - 1), max_size=3),
    st.sampled_from([64, 64, 16, 9, 3, 1]),
    st.none() | st.integers(0, 6),
    st.none() | st.integers(0, 25),
    st.just(()) | st.lists(TOKENS, min_size=1, max_size=3).map(tuple),
)
STORIES = st.lists(st.tuples(EDITS, st.just(Conditions()) | CONDITIONS), min_size=1, max_size=6)
Story = list[tuple[tuple[str, int, int], Conditions]]


def one_by_one(cast: Cast, prompt: list[int], how: Conditions) -> list[int]:
    """Greedy decoding as it is defined."""
    output: list[int] = []
    while len(output) < how.most and len(prompt) + len(output) <= CONTEXT and not (set(output) & how.stop):
        logits = cast.reference.logits((*prompt, *output))
        allowed = how.opening[len(output)] if len(output) < len(how.opening) else range(cast.vocab)
        output.append(max(sorted(allowed), key=lambda token: logits[token]))
    return output


def tell(cast: Cast, name: str, story: Story) -> None:
    """Each run's output must be the target's own, or where it was ended early the beginning of it."""
    runner, writer = decoder(cast, name), Writer()
    assert isinstance(runner.model, Target)
    for edit, how in story:
        prompt = list(writer.does(*edit))
        runner.model.rows, runner.model.left = how.rows, how.passes
        runner.costs = runner.costs  # the pace of reading follows the rows
        cancel = None if how.looks is None else CancelledAfter(how.looks)
        opening = Allowing(*how.opening) if how.opening else ANYTHING
        writer.suggested = written(steps_of(runner, prompt, how.most, how.stop, cancel, opening))
        expected = one_by_one(cast, prompt, how)
        if how.looks is None and how.passes is None:
            assert writer.suggested == expected
        assert writer.suggested == expected[: len(writer.suggested)]
        assert runner.model.length <= max(len(prompt) + len(writer.suggested) - 1, 0)


@pytest.mark.parametrize("name", DRAFTERS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(story=STORIES)
def test_whatever_happens_the_output_is_the_targets_own(name: str, cast: Cast, story: Story) -> None:
    tell(cast, name, story)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", DRAFTERS)
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(story=STORIES)
def test_it_is_so_for_many_more_with_another_target(name: str, other_cast: Cast, story: Story) -> None:
    tell(other_cast, name, story)

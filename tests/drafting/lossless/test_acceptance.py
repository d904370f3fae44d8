"""The target as its own draft is never wrong, whatever was read before; and the drafts of all others are accepted often
enough that the suite means something."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ghostdraft.drafting import growing
from tests.drafting.lossless.cast import (
    CONTEXT,
    COPYING,
    GROWING,
    ITSELF,
    KNOWING,
    KNOWING_HYBRID,
    WHOLE,
    Cast,
    Target,
    decoder,
    drafted,
    steps_of,
    written,
)
from tests.drafting.lossless.test_greedy import EDITS, Writer
from tests.models.small_models import tokens


@pytest.mark.parametrize("name", [ITSELF, WHOLE])
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(st.tuples(EDITS, st.sampled_from([64, 9, 2])), min_size=1, max_size=5))
def test_what_the_target_drafts_for_itself_is_all_accepted(
    name: str, cast: Cast, edits: list[tuple[tuple[str, int, int], int]]
) -> None:
    runner, writer = decoder(cast, name), Writer()
    assert isinstance(runner.model, Target)
    for edit, rows in edits:
        runner.model.rows = rows
        runner.costs = runner.costs  # the pace of reading follows the rows
        prompt = list(writer.does(*edit))
        with pytest.MonkeyPatch.context() as patch:  # the best token is named, however unlikely, and no other
            patch.setattr(growing, "WIDEST", 1)
            patch.setattr(growing, "LEAST", 0.0)
            steps = steps_of(runner, prompt)
        writer.suggested = written(steps)
        drafts, accepted = drafted(steps)
        assert drafts == accepted
        assert rows < 64 or len(prompt) > CONTEXT - 24 or accepted >= len(writer.suggested) // 2


@pytest.mark.parametrize("name", [*GROWING, *COPYING])
def test_drafts_are_accepted_in_part(name: str, cast: Cast) -> None:
    runner = decoder(cast, name)
    drafts, accepted = 0, 0
    for seed in range(12):
        found = drafted(steps_of(runner, tokens(30, seed) * 2, 40))
        drafts, accepted = drafts + found[0], accepted + found[1]
    assert drafts > accepted > (200 if name in (ITSELF, WHOLE, KNOWING, KNOWING_HYBRID) else 3)

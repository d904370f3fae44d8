"""What networks are judged by: the right place, the right tokens, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ghostdraft.drafting.train import losses
from ghostdraft.drafting.train.losses import IGNORED, TargetHead
from ghostdraft.drafting.train.network import DraftNetwork, EagleNetwork, MedusaHeads, Sizes

BATCH, LENGTH, HIDDEN, KNOWN = 2, 14, 64, 9
EPS = 1e-6


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(2)


def head() -> TargetHead:
    return TargetHead(torch.rand(HIDDEN) + 0.5, torch.randn(KNOWN, HIDDEN) / 4, EPS)


def least(head: TargetHead, states: torch.Tensor) -> float:
    """What is left where the target's own states are guessed: the entropy of what it says."""
    said = head.logits(states).softmax(dim=-1)
    return float(-(said * said.log()).sum(dim=-1).mean())


class Guessed(EagleNetwork):
    """Guesses these states, of which its head tells what the target's would, whatever it is told."""

    def __init__(self, made: torch.Tensor, judge: TargetHead) -> None:
        super().__init__(DraftNetwork(Sizes(HIDDEN, 1, 1, 1, 64), torch.randn(5, 32), KNOWN), HIDDEN)
        self.made = made
        self.draft.head.weight.data = judge.rows

    def guesses(self, token_ids: torch.Tensor, states: torch.Tensor, count: int) -> list[torch.Tensor]:
        assert states.shape[1] == token_ids.shape[1] == LENGTH - 1
        return [self.made] * count


@pytest.mark.parametrize("stride", [1, 3])
def test_an_eagle_is_judged_by_the_states_that_came_next(stride: int) -> None:
    judge, states, token_ids = head(), torch.randn(BATCH, LENGTH, HIDDEN), torch.zeros(BATCH, LENGTH, dtype=torch.long)
    guessed = Guessed(states[:, 1:], judge), Guessed(states[:, :-1], judge)
    found = []
    for network in guessed:
        torch.manual_seed(0)
        found.append(losses.eagle(network, judge, token_ids, states, 3, stride).item())
    first = 3 + int(torch.randint(stride, (), generator=torch.Generator().manual_seed(0)))
    assert found[0] == pytest.approx(least(judge, states[:, 1:][:, first::stride]), rel=1e-4)
    assert found[1] > found[0] + 0.1


def test_some_states_are_missing_as_behind_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(Guessed, "guesses", lambda self, _, states, count: seen.append(states) or [self.made] * count)
    judge, long = head(), torch.ones(BATCH, 257, HIDDEN)
    losses.eagle(Guessed(long[:, 1:], judge), judge, torch.zeros(BATCH, 257, dtype=torch.long), long, 1, 1)
    missing = (seen[0] == 0).all(dim=2)
    assert missing.sum(dim=1).tolist() == [32] * BATCH
    runs = "".join(map(str, missing[0].int().tolist())).replace("0", " ").split()
    assert max(map(len, runs)) == 8


class Shifted(MedusaHeads):
    """Head i guesses what stands `off` + i places on in a text whose states are all one turned round."""

    def __init__(self, off: int) -> None:
        super().__init__(HIDDEN, heads=3)
        self.off = off

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return torch.stack([states.roll(self.off + i, dims=-1) for i in range(self.heads)], dim=-2)


@pytest.mark.parametrize("stride", [1, 4])
def test_a_medusa_head_is_judged_by_the_states_so_many_places_on(stride: int) -> None:
    judge, state = head(), torch.randn(BATCH, HIDDEN)
    states = torch.stack([state.roll(place, dims=-1) for place in range(LENGTH)], dim=1)
    found = [losses.medusa(Shifted(off), judge, states, stride).item() for off in (0, 1, 2)]
    assert found[1] < min(found[0], found[2]) - 0.1


def test_distilled_is_least_where_the_network_says_what_the_target_says() -> None:
    judge, states = head(), torch.randn(BATCH, LENGTH, HIDDEN)
    network = DraftNetwork(Sizes(HIDDEN, 1, 1, 1, 64), torch.randn(20, 32), KNOWN)
    token_ids = torch.randint(20, (BATCH, LENGTH))
    network.hidden = lambda _: states  # type: ignore[method-assign, assignment]
    network.head = nn.Linear(HIDDEN, KNOWN, bias=False)
    network.head.weight.data = judge.rows
    assert losses.distilled(network, judge, token_ids, states).item() == pytest.approx(least(judge, states), rel=1e-4)
    network.head.weight.data = -judge.rows
    assert losses.distilled(network, judge, token_ids, states).item() > least(judge, states) + 0.1


def test_tokens_that_are_not_known_do_not_count() -> None:
    network = DraftNetwork(Sizes(HIDDEN, 1, 1, 1, 64), torch.randn(20, 32), KNOWN)
    token_ids = torch.randint(20, (1, 4))
    labels = torch.tensor([[3, IGNORED, 5, IGNORED]])
    logits = network.head(network.hidden(token_ids))
    expected = (F.cross_entropy(logits[0, 0], labels[0, 0]) + F.cross_entropy(logits[0, 2], labels[0, 2])) / 2
    torch.testing.assert_close(losses.next_tokens(network, token_ids, labels), expected)


def test_the_targets_head_is_frozen_and_norms_as_the_target_does() -> None:
    judge, hidden = head(), torch.randn(3, HIDDEN)
    assert list(judge.parameters()) == []
    expected = hidden / (hidden.square().mean(dim=-1, keepdim=True) + EPS).sqrt() * judge.norm
    torch.testing.assert_close(judge.states(hidden), expected)

"""The draft networks: nobody sees what comes later, and what is frozen stays as it is."""

from __future__ import annotations

import pytest
import torch

from ghostdraft.drafting.train.network import DraftNetwork, EagleNetwork, MedusaHeads, Sizes

VOCAB, LENGTH, TARGET = 50, 12, 96
SIZES = Sizes(hidden=128, layers=2, heads=4, kv_heads=2, mlp=96)


@pytest.fixture
def embedding() -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randn(VOCAB, 128)


def eagle(embedding: torch.Tensor) -> EagleNetwork:
    network = EagleNetwork(DraftNetwork(SIZES, embedding, 20), TARGET)
    for linear in (network.state, network.own):
        torch.nn.init.normal_(linear.weight, std=0.1)
    return network


def seen_from(states: torch.Tensor, changed: torch.Tensor) -> list[bool]:
    """[LENGTH] at which places a change of the input is seen."""
    return (states != changed).flatten(2).any(dim=2)[0].tolist()


def test_a_draft_model_sees_what_stands_before_only(embedding: torch.Tensor) -> None:
    network = DraftNetwork(SIZES, embedding, draft_vocab=20)
    token_ids = torch.arange(LENGTH)[None]
    other = token_ids.clone()
    other[0, 5] = 40
    assert seen_from(network.hidden(token_ids), network.hidden(other)) == [False] * 5 + [True] * 7
    assert network.head(network.hidden(token_ids)).shape == (1, LENGTH, 20)


@pytest.mark.parametrize("what", ["state", "token"])
def test_an_eagle_sees_what_stands_before_only(embedding: torch.Tensor, what: str) -> None:
    network = eagle(embedding)
    states, token_ids = torch.randn(1, LENGTH, TARGET), torch.arange(LENGTH)[None]
    changed, others = states.clone(), token_ids.clone()
    if what == "state":
        changed[0, 5] += torch.randn(TARGET)
    else:
        others[0, 5] = 40
    for number, (one, other) in enumerate(
        zip(network.guesses(token_ids, states, 3), network.guesses(others, changed, 3), strict=True)
    ):
        first = 5 + (number if what == "state" else 0)
        assert seen_from(one, other)[number:] == [place >= first for place in range(number, LENGTH)]


def test_an_eagle_that_knows_of_no_states_yet_is_a_draft_model(embedding: torch.Tensor) -> None:
    network = EagleNetwork(DraftNetwork(SIZES, embedding, 20), TARGET)
    token_ids = torch.arange(LENGTH)[None]
    (guess,) = network.guesses(token_ids, torch.randn(1, LENGTH, TARGET), 1)
    torch.testing.assert_close(guess, network.draft.hidden(token_ids))


@torch.no_grad()
def test_a_guess_upon_guesses_is_what_drafting_step_by_step_gives(embedding: torch.Tensor) -> None:
    """The target's states up to the place before; from there on the network's own, one by one."""
    network = eagle(embedding)
    states, token_ids = torch.randn(1, LENGTH, TARGET), torch.arange(LENGTH)[None]
    made = network.guesses(token_ids, states, 4)
    for number, place in ((0, 7), (1, 7), (2, 7), (3, 7), (3, 3)):
        known = place - number + 1
        came_of = network.state(torch.nn.functional.rms_norm(states[:, :known], (TARGET,)))
        for _ in range(number):
            last = network(token_ids[:, : came_of.shape[1]], came_of)[:, -1:]
            came_of = torch.cat((came_of, network.own(last)), dim=1)
        expected = network(token_ids[:, : place + 1], came_of)[:, -1]
        torch.testing.assert_close(made[number][:, place], expected, rtol=1e-4, atol=1e-4)


def test_untrained_medusa_heads_say_what_the_target_says_next() -> None:
    states = torch.randn(2, LENGTH, 128)
    found = MedusaHeads(128, heads=3)(states)
    assert found.shape == (2, LENGTH, 3, 128)
    torch.testing.assert_close(found[:, :, 1], torch.nn.functional.rms_norm(states, (128,), eps=1e-6))


def test_the_embedding_is_frozen(embedding: torch.Tensor) -> None:
    for network in (DraftNetwork(SIZES, embedding, 20), eagle(embedding)):
        assert not any(parameter is embedding for parameter in network.parameters())

"""The draft networks: nobody sees what comes later, and what is frozen stays as it is."""

from __future__ import annotations

import pytest
import torch

from ghostdraft.drafting.train.network import DraftNetwork, EagleNetwork, MedusaHeads, Sizes

VOCAB, LENGTH = 50, 12
SIZES = Sizes(hidden=128, layers=2, heads=4, kv_heads=2, mlp=96)


@pytest.fixture
def embedding() -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randn(VOCAB, 128)


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
    states, token_ids = torch.randn(1, LENGTH, 96), torch.arange(LENGTH)[None]
    changed, others = states.clone(), token_ids.clone()
    if what == "state":
        changed[0, 5] += 1
    else:
        others[0, 5] = 40
    for one, other in zip(network.guesses(token_ids, states, 1), network.guesses(others, changed, 1), strict=True):
        assert seen_from(one, other) == [False] * 5 + [True] * 7


def test_an_eagle_begins_as_its_draft_model(embedding: torch.Tensor) -> None:
    draft = DraftNetwork(SIZES, embedding, draft_vocab=20)
    token_ids = torch.arange(LENGTH)[None]
    first, *_ = EagleNetwork(draft, 96).guesses(token_ids, torch.randn(1, LENGTH, 96), 2)
    torch.testing.assert_close(first, draft.hidden(token_ids))


def eagle(embedding: torch.Tensor) -> EagleNetwork:
    """One that heeds states."""
    network = EagleNetwork(DraftNetwork(SIZES, embedding, draft_vocab=20), 96)
    torch.nn.init.normal_(network.state.weight)
    return network


def test_untrained_medusa_heads_say_what_the_target_says_next() -> None:
    states = torch.randn(2, LENGTH, 128)
    found = MedusaHeads(128, heads=3)(states)
    assert found.shape == (2, LENGTH, 3, 128)
    torch.testing.assert_close(found[:, :, 1], torch.nn.functional.rms_norm(states, (128,), eps=1e-6))


def test_the_embedding_is_frozen(embedding: torch.Tensor) -> None:
    network = eagle(embedding)
    assert not any(parameter is network.draft.embedding for parameter in network.parameters())

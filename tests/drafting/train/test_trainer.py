"""Training learns, stops when told, and goes on from its checkpoint as if it had never stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from ghostdraft.drafting.train.network import DraftNetwork, MedusaHeads, Sizes
from ghostdraft.drafting.train.trainer import COOL_DOWN, LEAST_RATE, WARM_UP, Loss, Plan, Trainer, rate_share

VOCAB = 32


def network() -> DraftNetwork:
    torch.manual_seed(1)
    return DraftNetwork(Sizes(hidden=64, layers=1, heads=1, kv_heads=1, mlp=64), torch.randn(VOCAB, 48), VOCAB)


def counting(model: DraftNetwork) -> Loss:
    """Each token is the one before it and one more."""

    def loss(step: int) -> torch.Tensor:
        starts = torch.randint(VOCAB, (8, 1), generator=torch.Generator().manual_seed(step))
        token_ids = (starts + torch.arange(17)) % VOCAB
        logits = model.head(model.hidden(token_ids[:, :-1]))
        return F.cross_entropy(logits.flatten(0, 1), token_ids[:, 1:].flatten())

    return loss


def trainer(path: Path) -> tuple[Trainer, DraftNetwork]:
    model = network()
    return Trainer(model, counting(model), path), model


def test_it_learns(tmp_path: Path) -> None:
    done = list(trainer(tmp_path / "last.pt")[0].run(Plan(steps=120)))
    assert [one.step for one in done] == list(range(1, 121))
    assert done[0].loss > 3.0
    assert done[-1].loss < 0.5


def test_it_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    straight, whole = trainer(tmp_path / "one.pt")
    losses = [one.loss for one in straight.run(Plan(steps=9))]
    begun, _ = trainer(tmp_path / "two.pt")
    first = [one.loss for _, one in zip(range(4), begun.run(Plan(steps=9)), strict=False)]
    begun.keep()
    resumed, parts = trainer(tmp_path / "two.pt")
    rest = [one.loss for one in resumed.run(Plan(steps=9))]
    assert (len(first), first + rest) == (4, losses)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters(), strict=True))


def test_it_stops_when_its_time_is_over_and_keeps_what_it_has(tmp_path: Path) -> None:
    assert list(trainer(tmp_path / "last.pt")[0].run(Plan(steps=5, seconds=0.0))) == []
    assert (tmp_path / "last.pt").exists()


def test_a_step_that_fails_leaves_the_checkpoint_as_it_was(tmp_path: Path) -> None:
    one, model = trainer(tmp_path / "last.pt")
    list(one.run(Plan(steps=2)))

    def failing(step: int) -> torch.Tensor:
        raise RuntimeError(f"no batch {step}")

    broken = Trainer(model, failing, tmp_path / "last.pt")
    before = (tmp_path / "last.pt").read_bytes()
    with pytest.raises(RuntimeError, match="no batch 2"):
        list(broken.run(Plan(steps=5)))
    assert (tmp_path / "last.pt").read_bytes() == before


def test_heads_without_blocks_are_trained_too(tmp_path: Path) -> None:
    heads = MedusaHeads(16, heads=2)
    states = torch.randn(1, 4, 16, generator=torch.Generator().manual_seed(1))
    done = list(Trainer(heads, lambda _step: (heads(states) ** 2).mean(), tmp_path / "last.pt").run(Plan(steps=30)))
    assert done[-1].loss < done[0].loss


def test_the_frozen_embedding_is_not_kept(tmp_path: Path) -> None:
    one, _ = trainer(tmp_path / "last.pt")
    one.keep()
    assert "embedding" not in torch.load(tmp_path / "last.pt", weights_only=True)["network"]


def test_the_rate_rises_stays_and_falls() -> None:
    steps = 10_000
    assert rate_share(0, steps) == pytest.approx(1 / WARM_UP)
    assert rate_share(WARM_UP, steps) == 1.0
    assert rate_share(int((1 - COOL_DOWN) * steps), steps) == 1.0
    assert rate_share(steps - 1, steps) == LEAST_RATE
    shares = [rate_share(step, steps) for step in range(WARM_UP, steps)]
    assert shares == sorted(shares, reverse=True)

"""The measure of fidelity: scores against a plain definition, references computed once, peers that are not there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ghostdraft.benchmarks import fidelity
from ghostdraft.benchmarks.report import Bar
from ghostdraft.benchmarks.scores import Ints, Scores, join, score
from ghostdraft.models.checkpoint import Checkpoint, SourceFile
from ghostdraft.models.types import EngineUnavailable, ModelSpec
from tests.fakes import FakeModel, hashed_logits, shape

VOCAB = 50
WINDOWS = np.random.default_rng(0).integers(0, VOCAB, (3, 512)).astype(np.int32)
CHECKPOINT = Checkpoint(Path("nowhere"), ModelSpec("fake", "none", shape(VOCAB)), (SourceFile("a.gguf", 1, "ab"),), "")
Count = Callable[[Checkpoint, Ints], Iterator[Scores]]


def test_scores_are_those_of_softmax() -> None:
    logits = np.random.default_rng(1).normal(0, 5, (20, VOCAB)).astype(np.float32)
    scores = score(logits, WINDOWS[0, :20])
    exact = logits.astype(np.float64)
    expected = [row[token] - np.log(np.exp(row).sum()) for row, token in zip(exact, WINDOWS[0, :20], strict=True)]
    np.testing.assert_allclose(scores.log_prob, expected, rtol=1e-5)
    assert scores.best.tolist() == logits.argmax(-1).tolist()


def test_scores_survive_the_disk(tmp_path: Path) -> None:
    scores = Scores(np.array([3, 1], np.int32), np.array([-0.25, -7.0]))
    scores.save(tmp_path / "new" / "scores.npz")
    loaded = Scores.load(tmp_path / "new" / "scores.npz")
    assert (loaded.best.tolist(), loaded.log_prob.tolist()) == ([3, 1], [-0.25, -7.0])
    assert len(list((tmp_path / "new").iterdir())) == 1


@pytest.mark.parametrize("max_rows", [7, 64, 600])
def test_every_token_is_scored_behind_its_own_window(max_rows: int) -> None:
    logits_of = hashed_logits(VOCAB)
    model = FakeModel(logits_of, VOCAB, context=512, max_rows=max_rows)
    for window, scores in zip(WINDOWS, fidelity.score_windows(model, WINDOWS), strict=True):
        line = window.tolist()
        expected = score(np.stack([logits_of(tuple(line[:i])) for i in range(1, 512)]), window[1:])
        assert np.array_equal(scores.best, expected.best)
        np.testing.assert_allclose(scores.log_prob, expected.log_prob)


def test_an_engine_equals_itself_and_differs_from_another() -> None:
    mine, other = (
        join(list(fidelity.score_windows(FakeModel(hashed_logits(VOCAB, seed), VOCAB), WINDOWS))) for seed in (1, 2)
    )
    same = fidelity.compare("fake", WINDOWS, ("a", mine), ("b", mine))
    assert (same.agreement, same.nll_rise, same.tokens) == (1.0, 0.0, 3 * 511)
    different = fidelity.compare("fake", WINDOWS, ("a", other), ("b", mine))
    assert different.agreement < 0.2
    assert different.nll_rise == pytest.approx(different.nll - same.nll)


def test_a_reference_is_computed_once_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[int] = []

    def reference(_: Checkpoint, windows: Ints) -> Iterator[Scores]:
        for window in windows:
            scored.append(int(window[0]))
            yield Scores(window[1:], np.zeros(511))

    monkeypatch.setitem(fidelity.REFERENCES, "numpy", reference)
    monkeypatch.setattr(fidelity, "user_cache_path", lambda _: tmp_path)
    with Bar("") as bar:
        fidelity.kept_scores(CHECKPOINT, WINDOWS[:2], "numpy", bar)
        scores = fidelity.kept_scores(CHECKPOINT, WINDOWS, "numpy", bar)
    assert scored == WINDOWS[:, 0].tolist()
    assert np.array_equal(scores.best, WINDOWS[:, 1:].ravel())


def test_a_peer_that_is_not_there_is_named() -> None:
    with pytest.raises(EngineUnavailable, match="--peer-python"):
        list(fidelity.llama_scores(Path(sys.executable), CHECKPOINT, WINDOWS))


def test_an_engine_that_is_not_known_is_told(tiny: Checkpoint) -> None:
    with pytest.raises(EngineUnavailable, match="gpt"), Bar("") as bar:
        fidelity.measure(tiny, 512, ["gpt"], Path(sys.executable), bar)


def test_windows_are_whole_and_stay_the_same(tiny: Checkpoint) -> None:
    windows = fidelity.text_windows(tiny, 2000)
    assert windows.shape == (4, 512)
    assert np.array_equal(windows, fidelity.text_windows(tiny, 2000))
    assert len(np.unique(windows, axis=0)) == 4

"""The model for GPUs against the plain transformer, its graphs played on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ghostdraft.benchmarks.gpu import decode
from ghostdraft.benchmarks.gpu_drafts import Played
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models.graphs import WIDTHS, GraphModel, NoGraphs
from ghostdraft.models.tensors import read_tensors
from ghostdraft.models.types import Interrupted
from tests.models.random_checkpoints import LENGTH, Published, publish
from tests.models.recorded_graphs import RecordedGraphs, WaitsForTheDevice
from tests.models.small_models import extend, hugging_face, ours, paths, run, shape, tokens, trees
from tests.models.test_families import CHANGES

CLOSE = 1e-4  # logits are of the order of 1
examples = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def graphed(graphs: Any = None, context: int = 128, **options: Any) -> GraphModel:
    options = {"device": "cpu", "dtype": "float32", **options}
    return GraphModel(shape(), hugging_face(shape()).state_dict(), context=context, graphs=graphs, **options)


@pytest.fixture(scope="module")
def small() -> GraphModel:
    return graphed(RecordedGraphs())


@pytest.fixture(scope="module")
def plain() -> Any:
    return ours(shape(), context=128)


def test_each_width_is_captured_once_and_replayed() -> None:
    graphs = RecordedGraphs()
    model = graphed(graphs)
    assert (graphs.captured, graphs.replayed) == (len(WIDTHS), 0)
    run(model, tokens(128), chunk=5)
    assert (graphs.captured, graphs.replayed) == (len(WIDTHS), -(-128 // 5))


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 16, 31, 33, 64, 65, 100])
def test_any_chunking_gives_the_plain_models_logits(small: GraphModel, plain: Any, chunk: int) -> None:
    np.testing.assert_allclose(run(small, tokens(128), chunk), run(plain, tokens(128)), atol=CLOSE, rtol=0)
    with pytest.raises(ValueError, match="context"):
        small.forward([1])


@pytest.mark.parametrize("family", CHANGES)
def test_families_give_the_logits_of_transformers(family: str, tmp_path: Path) -> None:
    one: Published = publish(family.partition("-")[0], CHANGES[family], tmp_path)
    tensors = read_tensors(one.checkpoint.weights, one.shape)
    model = GraphModel(one.shape, tensors, "cpu", "float32", 128, graphs=RecordedGraphs(), widths=(8, 64))
    np.testing.assert_allclose(run(model, tokens(LENGTH), chunk=7), one.expected, atol=CLOSE, rtol=0)


@given(parents=trees, before=st.sampled_from([0, 1, 20, 100]), data=st.data())
@examples
def test_a_row_of_a_tree_equals_its_own_line_and_a_kept_path_a_fresh_run(
    small: GraphModel, plain: Any, parents: tuple[int, ...], before: int, data: st.DataObject
) -> None:
    prompt, drafted, rest = tokens(before), tokens(len(parents), seed=1), tokens(4, seed=2)
    lines = [[drafted[row] for row in path] for path in paths(parents)]
    small.truncate(0)
    if prompt:
        extend(small, prompt)
    logits = small.forward(drafted, range(len(parents)), parents).logits
    np.testing.assert_allclose(logits, [run(plain, prompt + line)[-1] for line in lines], atol=CLOSE)
    kept = data.draw(st.sampled_from([[], *paths(parents)]))
    small.keep(kept)
    after = extend(small, rest)
    np.testing.assert_allclose(after, run(plain, prompt + [drafted[row] for row in kept] + rest)[-4:], atol=CLOSE)


def test_the_widest_tree_uses_all_bits(small: GraphModel, plain: Any) -> None:
    parents = [-1, *(row // 2 for row in range(63))]
    prompt, drafted = tokens(40), tokens(64, seed=1)
    run(small, prompt)
    logits = small.forward(drafted, range(64), parents).logits
    expected = [run(plain, prompt + [drafted[row] for row in path])[-1] for path in paths(parents)]
    np.testing.assert_allclose(logits, expected, atol=CLOSE)


def test_only_the_rows_asked_for_give_logits(small: GraphModel) -> None:
    everything = run(small, tokens(9))
    small.truncate(0)
    np.testing.assert_allclose(small.forward(tokens(9), [7, 2]).logits, everything[[7, 2]], atol=CLOSE)
    assert small.forward(tokens(9)).logits.shape == (0, shape().vocab)


def test_the_best_token_of_each_row_is_there_without_the_logits(small: GraphModel) -> None:
    small.truncate(0)
    result = small.forward(tokens(9), [7, 2, 5])
    assert result.best.tolist() == result.logits.argmax(1).tolist()
    assert small.forward(tokens(9)).best is None


def test_decoding_with_drafts_gives_the_text_that_the_plain_model_gives(
    plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody_needs_them(_rows: list[int]) -> None:
        raise AssertionError

    prompt = tokens(10)
    text = decode(plain, NoDrafter(), prompt, 60)
    model = graphed(RecordedGraphs())
    monkeypatch.setattr(model, "_read", nobody_needs_them)
    for drafter in (NoDrafter(), Played(text, 8, 0.7), Played(text, 8, 0.7, tree=True)):
        assert decode(model, drafter, prompt, 60) == text


def test_a_saved_cache_comes_back(small: GraphModel, plain: Any) -> None:
    run(small, tokens(30))
    state = small.save()
    run(small, tokens(50, seed=3))
    small.restore(state)
    after = extend(small, tokens(5, seed=2))
    np.testing.assert_allclose(after, run(plain, tokens(30) + tokens(5, seed=2))[-5:], atol=CLOSE)


def test_without_graphs_an_interrupted_pass_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    model = graphed(NoGraphs())
    run(model, tokens(4))
    mlp = model._mlp
    monkeypatch.setattr(model, "_mlp", lambda *layer: (model.interrupt(), mlp(*layer))[1])
    with pytest.raises(Interrupted):
        model.forward(tokens(4))
    monkeypatch.undo()
    with pytest.raises(ValueError, match="path"):
        model.keep([0])
    np.testing.assert_allclose(extend(model, tokens(4, seed=2)), run(model, tokens(4) + tokens(4, seed=2))[-4:])


def test_bfloat16_stays_near_float32(plain: Any) -> None:
    difference = run(graphed(RecordedGraphs(), dtype="bfloat16"), tokens(50)) - run(plain, tokens(50))
    assert 0 < np.abs(difference).mean() < 0.05


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-3), ("bfloat16", 0.3)])
def test_cuda_graphs_give_the_plain_models_logits(plain: Any, dtype: str, close: float) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    model = graphed(device="cuda", dtype=dtype)
    for chunk in (1, 5, 64, 100):
        np.testing.assert_allclose(run(model, tokens(128), chunk), run(plain, tokens(128)), atol=close)
    parents = [-1, *(row // 2 for row in range(63))]
    for one in (model, plain):
        run(one, tokens(40))
    found, expected = (one.forward(tokens(64, seed=1), range(64), parents).logits for one in (model, plain))
    np.testing.assert_allclose(found, expected, atol=close)


# ---- the fake holds what it is used for


def test_the_played_graph_keeps_what_the_host_put_in() -> None:
    number, out = torch.zeros(3), torch.zeros(3)
    host = [1.0]
    replay = RecordedGraphs().capture(lambda: out.copy_((number + host[0]).view(3).mul(2)))
    host[0] = 5.0
    number.fill_(10)
    replay()
    assert out.tolist() == [22.0] * 3


@pytest.mark.parametrize("wait", [lambda x: x.sum().item(), lambda x: x + torch.tensor([1.0]), torch.nonzero])
def test_the_played_graph_refuses_to_wait(wait: Any) -> None:
    with pytest.raises(WaitsForTheDevice):
        RecordedGraphs().capture(lambda: wait(torch.ones(2)))

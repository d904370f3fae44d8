"""Models that transformers runs behind `LanguageModel`, against transformers without it, and those that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ghostdraft.models.architectures import ARCHITECTURES
from ghostdraft.models.checkpoint import Checkpoint, SourceFile
from ghostdraft.models.fallback import FallbackModel
from ghostdraft.models.types import EngineUnavailable, Interrupted, ModelSpec, WeightsCorrupt
from tests.models.random_checkpoints import LENGTH, SIZES, Published, publish
from tests.models.small_models import extend, paths, run, shape, tokens, trees

CLOSE = 1e-4
CHANGES: dict[str, dict[str, Any]] = {
    "gpt_bigcode": {},
    "qwen3_moe": {"head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
    "llama": {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 5e4, "factor": 4.0}},
}
every_model = pytest.mark.parametrize("published", CHANGES, indirect=True)
one_model = pytest.mark.parametrize("published", ["gpt_bigcode"], indirect=True)
examples = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish(request.param, CHANGES[request.param], tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def model(published: Published) -> FallbackModel:
    return FallbackModel(published.checkpoint, context=128)


@every_model
def test_logits_equal_those_of_transformers(published: Published, model: FallbackModel) -> None:
    assert published.shape.architecture not in ARCHITECTURES
    for chunk in (LENGTH, 7):
        np.testing.assert_allclose(run(model, tokens(LENGTH), chunk), published.expected, atol=CLOSE, rtol=0)
    assert model.forward([1], ()).logits.shape == (0, SIZES["vocab_size"])


@every_model
@pytest.mark.parametrize("length", [0, 10, 60])
def test_truncating_equals_transformers_too(published: Published, model: FallbackModel, length: int) -> None:
    run(model, tokens(length) + tokens(30, seed=5))
    model.truncate(length)
    after = extend(model, tokens(LENGTH)[length:], chunk=9)
    np.testing.assert_allclose(after, published.expected[length:], atol=CLOSE, rtol=0)


@one_model
def test_a_saved_cache_equals_a_cold_one(published: Published, model: FallbackModel) -> None:
    run(model, tokens(10))
    state = model.save()
    run(model, tokens(30, seed=5))
    for _ in range(2):
        model.restore(state)
        after = extend(model, tokens(LENGTH)[10:], chunk=9)
        np.testing.assert_allclose(after, published.expected[10:], atol=CLOSE, rtol=0)


@every_model
@examples
@given(parents=trees, before=st.sampled_from([0, 5, 20]), data=st.data())
def test_a_row_of_a_tree_equals_its_own_line(
    model: FallbackModel, parents: tuple[int, ...], before: int, data: st.DataObject
) -> None:
    prompt, drafted, rest = tokens(before), tokens(len(parents), seed=1), tokens(4, seed=2)
    lines = [[drafted[row] for row in path] for path in paths(parents)]
    alone = [run(model, prompt + line)[-1] for line in lines]
    model.truncate(before)
    np.testing.assert_allclose(model.forward(drafted, range(len(parents)), parents).logits, alone, atol=CLOSE)
    kept = data.draw(st.integers(0, len(parents) - 1))
    model.keep(paths(parents)[kept])
    after = extend(model, rest)
    np.testing.assert_allclose(after, run(model, prompt + lines[kept] + rest)[-4:], atol=CLOSE)


@one_model
def test_an_interrupted_pass_leaves_no_trace(published: Published, model: FallbackModel) -> None:
    run(model, tokens(LENGTH)[:10])
    interruption = model._model.transformer.h[1].register_forward_pre_hook(lambda *_: model.interrupt())
    with pytest.raises(Interrupted):
        model.forward(tokens(LENGTH)[10:])
    interruption.remove()
    assert model.length == 10
    np.testing.assert_allclose(extend(model, tokens(LENGTH)[10:]), published.expected[10:], atol=CLOSE, rtol=0)


@one_model
def test_what_does_not_fit_is_refused(model: FallbackModel) -> None:
    run(model, tokens(3))
    for count, parents in ((0, None), (126, None), (2, [-1, 1])):
        with pytest.raises(ValueError):
            model.forward(tokens(count), parents=parents)
    with pytest.raises(ValueError, match="path"):
        model.keep([0, 2])
    with pytest.raises(ValueError, match="truncate"):
        model.truncate(4)


def test_a_context_ends_at_the_window(tmp_path: Path) -> None:
    one = publish("qwen3_moe", {**CHANGES["qwen3_moe"], "use_sliding_window": True, "sliding_window": 24}, tmp_path)
    model = FallbackModel(one.checkpoint)
    assert model.context == 24
    np.testing.assert_allclose(run(model, tokens(24)), one.expected[:24], atol=CLOSE, rtol=0)


def saved(model: transformers.PreTrainedModel, folder: Path) -> Checkpoint:
    model.save_pretrained(folder)
    spec = ModelSpec("odd", "none", replace(shape(), architecture=model.config.model_type))
    return Checkpoint(folder, spec, (SourceFile("model.safetensors", 0, ""),), "random")


def test_models_that_see_no_trees_are_refused(tmp_path: Path) -> None:
    """Bloom takes positions from the mask alone, Mamba has no keys."""
    bloom = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=97, hidden_size=32, n_layer=2, n_head=2))
    mamba = transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, state_size=4)
    )
    for name, model in (("bloom", bloom), ("mamba", mamba)):
        with pytest.raises(EngineUnavailable, match=f"odd: no engine here has {name}"):
            FallbackModel(saved(model, tmp_path / name))


def test_what_transformers_does_not_know_or_cannot_read_is_told(tmp_path: Path) -> None:
    one = publish("gpt_bigcode", {}, tmp_path)
    weights = one.checkpoint.weights[0]
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(WeightsCorrupt, match="gpt_bigcode"):
        FallbackModel(one.checkpoint)
    (tmp_path / "config.json").write_text('{"model_type": "abacus"}', "utf-8")
    with pytest.raises(EngineUnavailable, match="the transformers installed here"):
        FallbackModel(one.checkpoint)
    with pytest.raises(EngineUnavailable, match="GGUF"):
        FallbackModel(replace(one.checkpoint, files=(SourceFile("model.gguf", 0, ""),)))

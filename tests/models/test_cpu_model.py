"""The CPU engine against the float32 transformer, and against itself: a row's logits are bitwise its own."""

from __future__ import annotations

import errno
import json.encoder
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ghostdraft.benchmarks.scores import score
from ghostdraft.models import tokenizer
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.cpu import convert as convert_module
from ghostdraft.models.cpu.blocks import Q8_0, pack, quantise
from ghostdraft.models.cpu.convert import convert
from ghostdraft.models.cpu.model import VARIANT, CpuModel, variants
from ghostdraft.models.cpu.weights import Packed, Weights
from ghostdraft.models.transformer import Rows, TorchModel
from ghostdraft.models.types import (
    EngineUnavailable,
    FloatArray,
    Interrupted,
    ModelError,
    OutOfSpace,
    WeightsCorrupt,
)
from tests.models.random_checkpoints import publish
from tests.models.small_models import VOCAB, extend, paths, run, shape, stored, stored_gguf, tokens, trees

PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("qwen3", {}),
    "biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "linear-rope": ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 5e4, "factor": 4.0}}),
    "yarn": (
        "qwen2",
        {
            "rope_parameters": {
                "rope_type": "yarn", "rope_theta": 5e4, "factor": 4.0, "original_max_position_embeddings": 32,
            }
        },
    ),
}  # fmt: skip


def published(kind: str, changes: dict[str, Any], folder: Path) -> Checkpoint:
    return publish(kind, {"head_dim": 32, **changes}, folder).checkpoint


SHAPES: dict[str, Callable[[Path], Checkpoint]] = {
    "llama": lambda folder: stored(shape("llama"), folder),
    "qwen2": lambda folder: stored(shape("qwen2"), folder),
    "untied": lambda folder: stored(shape("qwen2", tied=False), folder),
    "groups-of-1": lambda folder: stored(shape("llama", heads=3, kv_heads=3), folder),
    "groups-of-7": lambda folder: stored(shape("qwen2", heads=14), folder),
    "heads-of-96": lambda folder: stored(shape("llama", heads=4, head_dim=96), folder),
    "groups-of-12": lambda folder: stored(shape("llama", heads=12, kv_heads=1), folder),
    **{name: partial(published, *how) for name, how in PUBLISHED.items()},
}
BLOCKS = {kind: partial(stored_gguf, kind) for kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")}
EXTREMES = {
    f"{kind}-extreme": partial(stored_gguf, kind, extreme=True) for kind in ("Q4_0", "Q5_0", "Q5_1", "Q6_K", "Q8_0")
}
CONTEXT = 128
examples = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
every_model = pytest.mark.parametrize("small", [*SHAPES, *BLOCKS], indirect=True)
every_shape = pytest.mark.parametrize("small", SHAPES, indirect=True)
one_model = pytest.mark.parametrize("small", ["qwen2"], indirect=True)


@pytest.fixture(scope="module")
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    checkpoint = {**SHAPES, **BLOCKS, **EXTREMES}[request.param](tmp_path_factory.mktemp("small"))
    convert(checkpoint)
    return checkpoint


@pytest.fixture(scope="module", params=variants())
def model(request: pytest.FixtureRequest, small: Checkpoint) -> CpuModel:
    return CpuModel(small.cpu_weights, CONTEXT, threads=1, variant=request.param)


@pytest.fixture(scope="module")
def alone(model: CpuModel) -> FloatArray:
    """[CONTEXT, vocab]: the logits of `tokens(CONTEXT)`, one row a pass."""
    return run(model, tokens(CONTEXT), chunk=1)


def start(model: CpuModel, token_ids: Sequence[int]) -> None:
    model.truncate(0)
    if token_ids:
        extend(model, token_ids)


# ---- near the float32 transformer with the same weights


def difference(found: FloatArray, expected: FloatArray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@every_model
def test_logits_are_near_those_of_float32(model: CpuModel, small: Checkpoint) -> None:
    expected = run(TorchModel(small, context=CONTEXT), tokens(100))
    found = run(model, tokens(100))
    assert difference(found, expected) < 0.08
    assert difference(run(model, tokens(100)[1:]), expected[1:]) > 0.16  # one token less in front is seen


class Overheard(TorchModel):
    """Remembers the hidden states of its last pass."""

    def _through_layers(self, token_ids: torch.Tensor, rows: Rows) -> torch.Tensor:
        self.hidden = super()._through_layers(token_ids, rows)
        return self.hidden


@every_shape
def test_hidden_states_are_near_those_of_float32(model: CpuModel, small: Checkpoint) -> None:
    reference = Overheard(small, context=CONTEXT)
    for one in (reference, model):
        run(one, tokens(30))
    reference.forward(tokens(64, seed=1))
    expected = reference.hidden.numpy()
    for logit_rows in ([], [3, 1], range(64)):
        found = model.forward(tokens(64, seed=1), logit_rows).hidden
        assert difference(found, expected) < 0.1
        assert difference(found[1:], expected[:-1]) > 0.5  # each row has its own


@pytest.mark.parametrize("small", EXTREMES, indirect=True)
def test_the_largest_sums_are_exact(model: CpuModel, small: Checkpoint) -> None:
    expected = run(TorchModel(small, context=CONTEXT), tokens(10))
    for chunk in (1, 10):
        assert difference(run(model, tokens(10), chunk), expected) < 0.01


def test_tiny_is_faithful(tiny: Checkpoint) -> None:
    code = Path(json.encoder.__file__).read_text("utf-8")
    token_ids = np.array(tokenizer.load(tiny.tokenizer_path).encode(code)[:300], np.int32)
    expected = score(run(TorchModel(tiny, context=300), token_ids[:-1]), token_ids[1:])
    found = score(run(CpuModel(tiny.cpu_weights, 300), token_ids[:-1]), token_ids[1:])
    assert (found.best == expected.best).mean() > 0.94
    assert expected.log_prob.mean() - found.log_prob.mean() < 0.02


# ---- bitwise


@every_model
@examples
@given(before=st.integers(0, 64), count=st.integers(1, 64))
def test_a_row_among_others_equals_the_row_alone(model: CpuModel, alone: FloatArray, before: int, count: int) -> None:
    start(model, tokens(CONTEXT)[:before])
    line = tokens(CONTEXT)[before : before + count]
    assert np.array_equal(model.forward(line, range(count)).logits, alone[before : before + count])


@every_model
@examples
@given(chunk=st.integers(1, 64))
def test_chunking_changes_nothing(model: CpuModel, alone: FloatArray, chunk: int) -> None:
    assert np.array_equal(run(model, tokens(CONTEXT), chunk), alone)


@one_model
@examples
@given(rows=st.lists(st.integers(0, 39), max_size=40, unique=True))
def test_a_row_has_its_logits_whichever_are_asked_for(model: CpuModel, alone: FloatArray, rows: list[int]) -> None:
    start(model, [])
    assert np.array_equal(model.forward(tokens(CONTEXT)[:40], rows).logits, alone[rows])


@every_shape
@examples
@given(parents=trees, before=st.integers(0, 40))
def test_a_row_in_a_tree_equals_its_own_line(model: CpuModel, parents: tuple[int, ...], before: int) -> None:
    prompt, drafted = tokens(before), tokens(len(parents), seed=1)
    start(model, prompt)
    logits = model.forward(drafted, range(len(parents)), parents).logits.copy()
    for row, path in enumerate(paths(parents)):
        start(model, prompt)
        assert np.array_equal(extend(model, [drafted[i] for i in path], chunk=1)[-1], logits[row])


@one_model
@pytest.mark.parametrize("before", [0, 33, 40, 57, 63, 64])
def test_wide_and_deep_trees_equal_their_lines(model: CpuModel, before: int) -> None:
    """Two lines of 32 rows in turns: what a row sees lies far apart, and in several of attention's exact sums."""
    prompt, drafted = tokens(before), tokens(64, seed=1)
    start(model, prompt)
    logits = model.forward(drafted, range(64), [max(row - 2, -1) for row in range(64)]).logits.copy()
    for first in (0, 1):
        start(model, prompt)
        assert np.array_equal(extend(model, drafted[first::2], chunk=1), logits[first::2])


@every_shape
@examples
@given(parents=trees, before=st.integers(0, 40), data=st.data())
def test_keeping_a_path_equals_a_fresh_run(
    model: CpuModel, parents: tuple[int, ...], before: int, data: st.DataObject
) -> None:
    prompt, drafted, rest = tokens(before), tokens(len(parents), seed=1), tokens(20, seed=2)
    path = data.draw(st.sampled_from([[], *paths(parents)]))
    start(model, prompt)
    model.forward(drafted, parents=parents)
    model.keep(path)
    assert model.length == before + len(path)
    after = extend(model, rest)
    fresh = run(model, prompt + [drafted[i] for i in path] + rest, chunk=1)
    assert np.array_equal(after, fresh[-20:])


@every_shape
@examples
@given(length=st.integers(0, 100))
def test_a_warm_cache_equals_a_cold_one(model: CpuModel, alone: FloatArray, length: int) -> None:
    start(model, tokens(CONTEXT)[:length] + tokens(100 - length, seed=3))
    model.forward(tokens(28, seed=4))
    model.truncate(length)
    assert np.array_equal(extend(model, tokens(CONTEXT)[length:]), alone[length:])


@every_shape
@examples
@given(length=st.integers(0, CONTEXT), other=st.integers(0, CONTEXT))
def test_a_saved_cache_equals_a_cold_one(model: CpuModel, alone: FloatArray, length: int, other: int) -> None:
    start(model, tokens(CONTEXT)[:length])
    state = model.save()
    start(model, tokens(other, seed=3))
    for _ in range(2):
        model.restore(state)
        assert model.length == length
        rest = tokens(CONTEXT)[length : length + 30]
        assert not rest or np.array_equal(extend(model, rest), alone[length : length + 30])


@every_shape
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("variant", variants())
def test_threads_change_nothing(small: Checkpoint, variant: str, threads: int) -> None:
    one, many = (CpuModel(small.cpu_weights, CONTEXT, count, variant) for count in (1, threads))
    assert np.array_equal(run(many, tokens(90), chunk=13), run(one, tokens(90)))


@pytest.mark.parametrize("variant", variants())
def test_rows_of_tiny_are_bitwise_their_own(tiny: Checkpoint, variant: str) -> None:
    token_ids = tokens(24, vocab=tiny.spec.shape.vocab)
    model = CpuModel(tiny.cpu_weights, 64, 2, variant)
    alone = run(model, token_ids, chunk=1)
    assert np.array_equal(run(model, token_ids, chunk=24), alone)
    model.truncate(16)
    twice = [*token_ids[16:], *token_ids[16:]]
    tree = model.forward(twice, range(16), [-1, *range(7), -1, *range(8, 15)])
    assert np.array_equal(tree.logits, np.concatenate([alone[16:], alone[16:]]))


def test_an_interrupted_pass_leaves_no_trace(tiny: Checkpoint) -> None:
    token_ids = tokens(64, vocab=tiny.spec.shape.vocab)
    whole, model = (CpuModel(tiny.cpu_weights, 64, 2) for _ in range(2))
    start(model, token_ids[:10])
    over = threading.Event()
    thread = threading.Thread(target=lambda: [model.interrupt() for _ in iter(lambda: over.wait(0.001), True)])
    thread.start()
    try:
        with pytest.raises(Interrupted):
            model.forward(token_ids[10:], range(54))
    finally:
        over.set()
        thread.join()
    assert model.length == 10
    assert np.array_equal(extend(model, token_ids[10:]), run(whole, token_ids)[10:])


@one_model
def test_interruptions_at_any_time_leave_no_trace(small: Checkpoint) -> None:
    """Passes with and without logits, more threads than processors, so that some come late to what is over."""
    model, over = CpuModel(small.cpu_weights, CONTEXT, threads=5), threading.Event()
    thread = threading.Thread(target=lambda: [model.interrupt() for _ in iter(lambda: over.wait(0.0003), True)])
    thread.start()
    ended = 0
    for turn in range(400):
        model.truncate(0)
        try:
            model.forward(tokens(40), [] if turn % 3 else [39])
        except Interrupted:
            ended += 1
            with pytest.raises(ValueError, match="path"):
                model.keep([0])
    over.set()
    thread.join()
    assert ended > 0
    np.testing.assert_array_equal(run(model, tokens(40)), run(CpuModel(small.cpu_weights, CONTEXT, 1), tokens(40)))


@pytest.mark.parametrize("variant", variants())
def test_an_interrupted_pass_goes_on_where_it_ended(tiny: Checkpoint, variant: str) -> None:
    """Begun anew each time, no pass would ever end between two interruptions."""
    token_ids = tokens(64, vocab=tiny.spec.shape.vocab)
    whole, model = (CpuModel(tiny.cpu_weights, 64, 2, variant) for _ in range(2))
    start(model, token_ids[:10])
    started = time.perf_counter()
    expected = run(whole, token_ids)[10:]
    pause = (time.perf_counter() - started) / 5
    over = threading.Event()
    thread = threading.Thread(target=lambda: [model.interrupt() for _ in iter(lambda: over.wait(pause), True)])
    thread.start()
    found = None
    for _ in range(100):
        with suppress(Interrupted):
            found = model.forward(token_ids[10:], range(54)).logits.copy()
            break
    over.set()
    thread.join()
    assert found is not None
    assert np.array_equal(found, expected)


def test_an_interruption_between_two_passes_is_void(tiny: Checkpoint) -> None:
    model = CpuModel(tiny.cpu_weights, 64, 2)
    model.interrupt()
    model.forward([1, 2])


# ---- refused


@one_model
@pytest.mark.parametrize(
    ("token_ids", "rows", "parents"),
    [
        ([], (), None),
        (tokens(65), (), None),
        ([VOCAB], (), None),
        ([-1], (), None),
        ([1, 2], (2,), None),
        ([1, 2], (-1,), None),
        ([1, 2], (), [-1]),
        ([1, 2], (), [-1, 1]),
        ([1, 2], (), [-2, 0]),
    ],
)
def test_rows_that_cannot_be_run_are_refused(
    model: CpuModel, token_ids: list[int], rows: tuple[int, ...], parents: list[int] | None
) -> None:
    start(model, tokens(3))
    with pytest.raises(ValueError):
        model.forward(token_ids, rows, parents)
    assert model.length == 3


@one_model
def test_a_full_cache_says_so(model: CpuModel) -> None:
    start(model, tokens(CONTEXT))
    with pytest.raises(ValueError, match="0 left"):
        model.forward([1])
    with pytest.raises(ValueError, match="truncate"):
        model.truncate(CONTEXT + 1)


# ---- for drafts: fewer layers, weights of others, states of others, threads of others


@every_model
def test_some_rows_of_a_head_give_the_logits_that_they_gave_before(model: CpuModel, alone: FloatArray) -> None:
    weights, rows = model.weights, np.random.default_rng(0).permutation(VOCAB)[:37].astype(np.int32)
    few = replace(
        weights,
        shape=replace(weights.shape, tied=False),
        matrices={**weights.matrices, "head.weight": weights.head.take(rows)},
    )
    reduced = CpuModel(few, CONTEXT, beside=model)
    assert (extend(reduced, tokens(30)) == alone[:30, rows]).all()


FUSED = 96  # inputs of a row


@pytest.fixture(scope="module")
def fused(model: CpuModel) -> CpuModel:
    """The model with a fusion of its embeddings and as many inputs."""
    weights = model.weights
    joined = np.random.default_rng(1).normal(size=(weights.shape.hidden, weights.shape.hidden + FUSED))
    matrix = Packed(Q8_0, *joined.shape, np.frombuffer(pack(quantise(joined.astype(np.float32)), Q8_0), np.uint8))
    return CpuModel(replace(weights, matrices={**weights.matrices, "fusion.weight": matrix}), CONTEXT, beside=model)


def inputs(count: int, width: int) -> FloatArray:
    return np.random.default_rng(2).normal(size=(count, width)).astype(np.float32)


@every_shape
def test_inputs_are_fused_with_embeddings(model: CpuModel, fused: CpuModel) -> None:
    joined = np.random.default_rng(1).normal(size=(model.shape.hidden, model.shape.hidden + FUSED))
    model.truncate(0)
    embedded, given_ones = model.forward(tokens(9), layers=0).hidden, inputs(9, FUSED)
    assert embedded is not None
    found = fused.forward(tokens(9), inputs=given_ones, layers=0).hidden
    assert found is not None
    assert difference(found, np.concatenate((embedded, given_ones), axis=1) @ joined.T) < 0.02


@every_shape
def test_a_fused_row_among_others_equals_the_row_alone(fused: CpuModel) -> None:
    given_ones, one_by_one = inputs(20, FUSED), list[FloatArray]()
    fused.truncate(0)
    for token, row in zip(tokens(20), given_ones, strict=True):
        one_by_one.append(fused.forward([token], [0], inputs=row[None]).logits[0].copy())
        fused.keep([0])
    fused.truncate(0)
    assert (fused.forward(tokens(20), range(20), inputs=given_ones).logits == one_by_one).all()


@every_shape
def test_without_embeddings_inputs_stand_for_tokens(model: CpuModel, alone: FloatArray) -> None:
    weights = model.weights
    matrices = {key: one for key, one in weights.matrices.items() if key != "embedding.weight"}
    untied = Weights(replace(weights.shape, tied=False), {**matrices, "head.weight": weights.head}, weights.vectors)
    bare = CpuModel(untied, CONTEXT, beside=model)
    model.truncate(0)
    embedded = model.forward(tokens(9), layers=0).hidden
    assert (bare.forward([0] * 9, range(9), inputs=embedded).logits == alone[:9]).all()


@every_shape
def test_inputs_that_nobody_wants_are_refused(model: CpuModel, fused: CpuModel) -> None:
    for one, wrong in ((model, inputs(2, FUSED)), (fused, None), (fused, inputs(1, FUSED)), (fused, inputs(2, 32))):
        with pytest.raises(ValueError, match="inputs of shape"):
            one.forward(tokens(2), inputs=wrong)


@every_shape
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_a_pass_through_fewer_layers_leaves_no_trace(model: CpuModel, alone: FloatArray, layers: int) -> None:
    start(model, tokens(40))
    drafted = tokens(5, seed=9)
    for token in drafted:
        model.forward([token], [0], layers=layers)
        model.keep([0])
    model.truncate(40)
    assert (extend(model, tokens(60)[40:]) == alone[40:60]).all()


@one_model
def test_the_layers_that_a_pass_goes_through_are_the_first_ones(small: Checkpoint) -> None:
    model = CpuModel(small.cpu_weights, CONTEXT, threads=1)
    states = [model.forward(tokens(9), layers=layers).hidden for layers in range(4)]
    assert (states[3] == model.forward(tokens(9)).hidden).all()
    assert all((one != other).any() for one, other in pairwise(states))
    with pytest.raises(ValueError, match="4 layers of 3"):
        model.forward(tokens(9), layers=4)


@one_model
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_models_that_share_threads_are_as_by_themselves(
    small: Checkpoint, model: CpuModel, alone: FloatArray, threads: int
) -> None:
    """The second runs few phases and is closed at once: a thread that comes late must find nothing of it to do."""
    first = CpuModel(small.cpu_weights, CONTEXT, threads, model.variant)
    for turn in range(60):
        second = CpuModel(small.cpu_weights, CONTEXT, beside=first)
        assert second.threads == first.threads
        first.truncate(0)
        assert (extend(first, tokens(8)) == alone[:8]).all()
        second.forward(tokens(3), layers=turn % 3)
        if turn % 2:
            second.truncate(0)
            assert (extend(second, tokens(8)) == alone[:8]).all()
        second.close()
        assert (extend(first, tokens(16)[8:]) == alone[8:16]).all()


@one_model
def test_models_that_share_threads_may_be_closed_in_any_order(small: Checkpoint) -> None:
    first = CpuModel(small.cpu_weights, CONTEXT, 2)
    expected = first.forward(tokens(5), range(5)).logits.copy()
    second, third = (CpuModel(small.cpu_weights, CONTEXT, beside=first) for _ in range(2))
    first.close()
    for one in (second, third):
        assert (one.forward(tokens(5), range(5)).logits == expected).all()
        one.close()
    with pytest.raises(ValueError, match="closed"):
        CpuModel(small.cpu_weights, CONTEXT, beside=first)


@one_model
@pytest.mark.parametrize("variant", variants())
def test_a_variant_can_be_forced(small: Checkpoint, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIANT, variant)
    assert CpuModel(small.cpu_weights, CONTEXT).variant == variant


@one_model
def test_an_unknown_variant_is_named(small: Checkpoint) -> None:
    with pytest.raises(EngineUnavailable, match=r"abacus.*portable"):
        CpuModel(small.cpu_weights, CONTEXT, variant="abacus")


@pytest.mark.parametrize(("number", "raised"), [(errno.ENOSPC, OutOfSpace), (errno.EROFS, ModelError)])
@one_model
def test_a_disk_that_takes_no_weights_is_told_apart_from_a_full_one(
    small: Checkpoint, number: int, raised: type[ModelError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(convert_module, "_write", refuse)
    with pytest.raises(ModelError, match=os.strerror(number) if raised is ModelError else "full") as told:
        convert(small)
    assert type(told.value) is raised
    assert small.cpu_weights.exists()  # those of before


@one_model
def test_a_cut_file_is_named(small: Checkpoint, tmp_path: Path) -> None:
    cut = tmp_path / "cpu.gdw"
    cut.write_bytes(small.cpu_weights.read_bytes()[:-64])
    with pytest.raises(WeightsCorrupt, match=r"cpu\.gdw"):
        CpuModel(cut, CONTEXT)

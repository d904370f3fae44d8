"""What the target says of a sequence is what it would say of it alone; reading goes on where it was left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ghostdraft.drafting.train.teacher import Lessons, read, teach
from ghostdraft.models.cpu.convert import convert
from ghostdraft.models.cpu.model import CpuModel
from ghostdraft.models.types import IntArray
from tests.fakes import FakeModel, hashed_logits
from tests.models.small_models import shape, stored, tokens

LENGTH = 100  # more than a pass takes


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CpuModel:
    checkpoint = stored(shape("qwen2"), tmp_path_factory.mktemp("small"))
    convert(checkpoint)
    return CpuModel(checkpoint.cpu_weights, 2 * LENGTH, threads=1)


def sequence(number: int) -> IntArray:
    return np.array(tokens(LENGTH, seed=number), np.int32)


def test_states_are_those_of_the_sequence_by_itself(model: CpuModel) -> None:
    expected = read(model, sequence(1))
    read(model, sequence(2))
    assert expected.shape == (LENGTH, model.shape.hidden)
    assert (read(model, sequence(1)) == expected).all()
    assert (read(model, sequence(1)[:50]) == expected[:50]).all()


def test_reading_goes_on_where_it_was_left(model: CpuModel, tmp_path: Path) -> None:
    class LeftError(Exception):
        pass

    def leave(done: int, _count: int) -> None:
        if done == 2:
            raise LeftError

    with pytest.raises(LeftError):
        teach(model, Lessons(tmp_path, 4, LENGTH, model.shape.hidden), sequence, leave)
    steps: list[tuple[int, int]] = []
    lessons = Lessons(tmp_path, 4, LENGTH, model.shape.hidden)
    teach(model, lessons, sequence, lambda *step: steps.append(step))
    assert steps == [(3, 4), (4, 4)]
    token_ids, states = lessons.take(np.arange(4, dtype=np.int32))
    for number in range(4):
        assert (token_ids[number] == sequence(number)).all()
        assert (states[number] == read(model, sequence(number)).astype(np.float16)).all()


@pytest.mark.parametrize(("count", "length", "wider"), [(3, LENGTH, 0), (2, LENGTH - 1, 0), (2, LENGTH, 32)])
def test_lessons_of_another_size_begin_anew(
    model: CpuModel, tmp_path: Path, count: int, length: int, wider: int
) -> None:
    teach(model, Lessons(tmp_path, 2, LENGTH, model.shape.hidden), sequence, lambda *_: None)
    assert Lessons(tmp_path, 2, LENGTH, model.shape.hidden).done == 2
    assert Lessons(tmp_path, count, length, model.shape.hidden + wider).done == 0


@pytest.mark.parametrize("state", [np.inf, np.nan, 7e4])
def test_states_that_float16_does_not_hold_are_refused(tmp_path: Path, state: float) -> None:
    lessons = Lessons(tmp_path, 1, 2, 4)
    with pytest.raises(ValueError, match="float16"):
        lessons.keep(0, np.zeros(2, np.int32), np.full((2, 4), state, np.float32))
    assert lessons.done == 0


def test_a_model_that_tells_no_states_cannot_teach() -> None:
    with pytest.raises(ValueError, match="hidden states"):
        read(FakeModel(hashed_logits(50), 50), np.arange(8, dtype=np.int32))

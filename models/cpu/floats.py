"""A checkpoint's tensors as floats, as the CPU engine multiplies with them, for those who train drafts on them.

Knows nothing of training, and needs no PyTorch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.cpu.blocks import Floats, Format, Quants, Scales
from ghostdraft.models.cpu.convert import covers
from ghostdraft.models.cpu.sources import Name, open_source
from ghostdraft.models.types import EngineUnavailable, IntArray

Halves = npt.NDArray[np.float16]


class TargetFloats:
    """Of a stored model. Raises EngineUnavailable where the engine does not run it, WeightsCorrupt."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        shape = checkpoint.spec.shape
        if reason := covers(shape):
            raise EngineUnavailable(f"{checkpoint.name} can have no trained drafts: {reason}. Use another model.")
        self._source = open_source(checkpoint.weights, shape)
        self._head = Name("embedding" if shape.tied else "head")

    def embedding(self) -> Halves:
        """[vocab, hidden]"""
        return self._matrix(Name("embedding"))

    def head(self, vocabulary: IntArray) -> Halves:
        """[len(vocabulary), hidden]: the head's rows of these tokens."""
        return self._matrix(self._head)[vocabulary]

    def norm(self) -> Floats:
        """[hidden]: the final one."""
        return np.array(self._source.vector(Name("final_norm")), np.float32)

    def _matrix(self, name: Name) -> Halves:
        form = self._source.form(name)
        return np.concatenate([floats(quants, form).astype(np.float16) for quants in self._source.slices(name)])


def floats(quants: Quants, form: Format) -> Floats:
    """[rows, columns]: what the quants stand for."""
    columns = quants.values.shape[1]
    found: Floats = (quants.values.astype(np.float32) - np.float32(form.zero)) * _spread(quants.scales, columns)
    return found if quants.minima is None else found + _spread(quants.minima, columns)


def _spread(scales: Scales, columns: int) -> Floats:
    """[rows, columns]: the scale of each quant."""
    units = _widened(scales.units, columns)
    return units if scales.multiples is None else units * _widened(scales.multiples, columns)


def _widened(numbers: npt.NDArray[np.float32] | npt.NDArray[np.int8], columns: int) -> Floats:
    return np.repeat(numbers.astype(np.float32), columns // numbers.shape[1], axis=1)

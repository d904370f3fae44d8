"""Models of architectures that no engine here has, run by transformers behind `LanguageModel`: slower, but they run.

The cache is transformers' own, which is copied whole for each pass. Trees are given by masks and positions; a model
that does not heed them is refused when it is loaded.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.rows import check_path, check_room, checked_parents, visible
from ghostdraft.models.transformer import finish, memory_told, release
from ghostdraft.models.types import (
    CacheState,
    EngineUnavailable,
    FloatArray,
    IntArray,
    Interrupted,
    Pass,
    WeightsCorrupt,
    WeightsTooLarge,
)

try:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, DynamicCache
except ImportError as error:
    raise EngineUnavailable("This model needs PyTorch and transformers: pip install 'ghostdraft[gpu]'.") from error

MAX_ROWS = 512
_SAME = 0.05  # of their size may the logits of a token differ in a tree and in a line, by rounding


class FallbackModel:
    """A LanguageModel; `interrupt` takes one layer's time. Raises EngineUnavailable, WeightsCorrupt, OutOfMemory."""

    def __init__(
        self, checkpoint: Checkpoint, device: str = "cpu", dtype: str = "float32", context: int = 4096
    ) -> None:
        self.shape = checkpoint.spec.shape
        with memory_told(WeightsTooLarge, "its weights"):
            self._model: Any = _load(checkpoint, getattr(torch, dtype)).to(device)
        self.context = min(context, self.shape.context, _nearest(self._model.config))
        self.max_rows = min(MAX_ROWS, self.context)
        self.length = 0
        self._parents: IntArray = np.empty(0, np.int32)  # of the last pass
        self._interrupted = False
        self._cache = DynamicCache()
        self._cache_name = (
            "cache" if "cache" in inspect.signature(self._model.forward).parameters else "past_key_values"
        )
        self._listen()
        self._check_trees(checkpoint.name)

    @torch.inference_mode()
    def forward(
        self, token_ids: Sequence[int] | IntArray, logit_rows: Sequence[int] = (), parents: Sequence[int] | None = None
    ) -> Pass:
        self._interrupted = False
        self._parents = self._parents[:0]
        checked = checked_parents(len(token_ids), parents)
        check_room(len(token_ids), self.length, self.max_rows, self.context)
        self._select(slice(0, self.length))
        seen = visible(checked, self.length)
        given = {
            "position_ids": self._on_device(seen.sum(1) - 1)[None],
            "attention_mask": self._mask(torch.from_numpy(seen)),
            "logits_to_keep": self._on_device(logit_rows),
            self._cache_name: self._cache,
        }
        logits = self._model(self._on_device(token_ids)[None], use_cache=True, **given).logits[0]
        finish(logits.device)
        self._parents = checked
        return Pass(logits.float().cpu().numpy())

    def interrupt(self) -> None:
        self._interrupted = True

    def keep(self, rows: Sequence[int]) -> None:
        check_path(rows, self._parents)
        if list(rows) != list(range(len(rows))):
            kept = np.arange(self.length)
            self._select(self._on_device(np.concatenate((kept, self.length + np.asarray(rows)))))
        self.length += len(rows)
        self._parents = self._parents[:0]

    def truncate(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} tokens to {length}")
        self.length = length
        self._parents = self._parents[:0]

    @torch.inference_mode()
    def save(self) -> CacheState:
        self._select(slice(0, self.length))
        kept: Any = copy.deepcopy(self._cache)
        nbytes: int = sum(layer.keys.nbytes + layer.values.nbytes for layer in kept.layers)
        return CacheState(self.length, nbytes, kept)

    @torch.inference_mode()
    def restore(self, state: CacheState) -> None:
        self._cache = copy.deepcopy(state.content)
        self.length = state.length
        self._parents = self._parents[:0]

    def close(self) -> None:
        del self._model
        self._cache = DynamicCache()
        release()

    @torch.inference_mode()
    def _select(self, rows: Any) -> None:
        """Only these stay in the cache."""
        layers: Sequence[Any] = self._cache.layers
        for layer in layers:
            layer.keys, layer.values = layer.keys[:, :, rows], layer.values[:, :, rows]

    def _mask(self, seen: torch.Tensor) -> torch.Tensor:
        """[1, 1, R, S + R] to be added to the scores."""
        dtype = self._model.dtype
        hidden = torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)
        return hidden.to(self._model.device)[None, None]

    def _on_device(self, numbers: Sequence[int] | np.ndarray[Any, Any]) -> torch.Tensor:
        return torch.from_numpy(np.asarray(numbers, np.int64)).to(self._model.device)

    def _listen(self) -> None:
        """Looks at each layer's start whether the pass was interrupted."""

        def look(*_: object) -> None:
            if self._interrupted:
                raise Interrupted

        for module in self._model.modules():
            if isinstance(module, torch.nn.ModuleList) and len(module) == self.shape.layers:
                for layer in module:
                    layer.register_forward_pre_hook(look)

    def _check_trees(self, name: str) -> None:
        """Two tokens behind one are a tree of the same two lines. Raises EngineUnavailable."""
        try:
            tree, line = self.forward([1, 2, 3], [2], [-1, 0, 0]).logits, self.forward([1, 3], [1]).logits
            same = _distance(tree, line) < _SAME
        except (AttributeError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            raise EngineUnavailable(_refusal(name, self.shape.architecture)) from error
        if not same:
            raise EngineUnavailable(_refusal(name, self.shape.architecture))


def _load(checkpoint: Checkpoint, dtype: torch.dtype) -> Any:
    if checkpoint.weights[0].suffix == ".gguf":
        raise EngineUnavailable(
            f"{checkpoint.name}: no engine here runs {checkpoint.spec.shape.architecture} from a GGUF file. "
            "Pull or import its safetensors."
        )
    try:
        model = AutoModelForCausalLM.from_pretrained(
            checkpoint.folder, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (ImportError, KeyError, ValueError) as error:
        raise EngineUnavailable(_refusal(checkpoint.name, checkpoint.spec.shape.architecture)) from error
    except (OSError, RuntimeError, SafetensorError) as error:
        raise WeightsCorrupt(f"transformers cannot read the weights of {checkpoint.name}.") from error
    return model.eval()


def _nearest(config: Any) -> int:
    """The shortest distance over which some layer sees nothing, in tokens: contexts end there."""
    slides = getattr(config, "use_sliding_window", True)
    windows = (
        getattr(config, "sliding_window", None) if slides else None,
        getattr(config, "attention_chunk_size", None),
    )
    return min((window for window in windows if window), default=sys.maxsize)


def _distance(found: FloatArray, expected: FloatArray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def _refusal(name: str, architecture: str) -> str:
    return (
        f"{name}: no engine here has {architecture}, and the transformers installed here cannot run it for us either."
    )

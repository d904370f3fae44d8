"""CUDA graphs played on the CPU: what a capture ran is recorded operation by operation and run again on the very same
tensors. As on a GPU, a number that the host put in stays what it was at the capture, and nothing may be read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ghostdraft.models.graphs import Replay

# What waits for the device, or lets it wait for the host.
WAITING = ("item", "_local_scalar_dense", "lift_fresh", "nonzero", "is_nonzero", "equal")
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]


class WaitsForTheDevice(Exception):
    """In a capture, which CUDA would have refused."""


class RecordedGraphs:
    def __init__(self) -> None:
        self.captured = 0
        self.replayed = 0

    @torch.inference_mode()
    def capture(self, run: Replay) -> Replay:
        self.captured += 1
        with _Recorder() as recorder:
            run()
        return lambda: self._replay(recorder.calls)

    @torch.inference_mode()
    def _replay(self, calls: list[Call]) -> None:
        self.replayed += 1
        for function, arguments, options, made in calls:
            again = function(*arguments, **options)
            held = _storages((arguments, options))
            for old, new in zip(_tensors(made), _tensors(again), strict=True):
                if old.untyped_storage().data_ptr() not in held:
                    old.copy_(new)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, function: Any, _types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function.overloadpacket.__name__ in WAITING:
            raise WaitsForTheDevice(function)
        made = function(*arguments, **(options or {}))
        self.calls.append((function, arguments, options or {}, made))
        return made


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _storages(tree: Any) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in _tensors(tree)}

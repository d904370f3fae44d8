"""The PyTorch transformer for decoding at batch 1 on a GPU: passes of few rows run in fixed shapes, each shape captured
once as a CUDA graph and replayed, so that a pass costs its kernels and not their launches.

The cache lies still, and so do a pass's inputs. Its rows are padded to one of `WIDTHS`; what they see is worked out on
the device, from how many tokens are kept and from 64 bits for each row that say which rows it follows. The host waits
for the device once a pass: for the best token of each row, or else for its end; logits are fetched if somebody asks for
them. Longer passes, those of a cold prompt, run as in `transformer`.

Where there are no graphs the same passes run one kernel after the other. Knows nothing of drafts or text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.int4 import pack
from ghostdraft.models.rows import check_room, checked_parents
from ghostdraft.models.transformer import (
    Packing,
    Rows,
    Tensor,
    Transformer,
    as_it_is,
    memory_told,
    product,
    release,
)
from ghostdraft.models.types import FloatArray, IntArray, OutOfMemory, Pass, Shape

WIDTHS = (1, 2, 4, 8, 16, 32, 64)  # rows; a row's ancestors are bits of one integer
WIDEST = WIDTHS[-1]
SPAN = 256  # slots of the cache whose values one group of threads adds up

Replay = Callable[[], None]
Numbers = npt.NDArray[np.int64]


class Graphs(Protocol):
    def capture(self, run: Replay) -> Replay:
        """Runs `run`, and gives what does the same again on the same tensors, whatever they hold by then."""


class NoGraphs:
    """For devices that know none."""

    def capture(self, run: Replay) -> Replay:
        run()
        return run


class CudaGraphs:
    """Graphs of one model: their passes do not overlap, so they share one pool of memory."""

    WARM_UPS = 2  # runs before the capture: libraries set themselves up

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def capture(self, run: Replay) -> Replay:
        self._warm_up(run)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            run()
        return graph.replay

    def _warm_up(self, run: Replay) -> None:
        """On another stream, as captures want it."""
        stream, here = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            for _ in range(self.WARM_UPS):
                run()
        here.wait_stream(stream)


class _Inputs:
    """What a pass of at most `WIDEST` rows is told, at one place on the device."""

    def __init__(self, device: torch.device) -> None:
        self._numbers = torch.zeros(1 + 3 * WIDEST, dtype=torch.int64, device=device)
        self.fill(0, (), np.empty(0, np.int32))

    @property
    def length(self) -> Tensor:
        """[1] how many tokens are kept."""
        return self._numbers[:1]

    def rows(self, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """[width] each: token ids, positions, and which rows each follows, itself included, as bits."""
        token_ids, positions, ancestors = self._numbers[1:].view(3, WIDEST)[:, :width]
        return token_ids, positions, ancestors

    def fill(self, length: int, token_ids: Sequence[int] | IntArray, parents: IntArray) -> None:
        """Rows behind those given follow the kept tokens alone, so that there is no row that sees nothing: its keys
        would be no numbers, and those spoil sums even where they weigh 0. Does not wait for the device: what lies in
        pageable memory was copied once the call is back."""
        self._numbers.copy_(torch.from_numpy(_told(length, np.asarray(token_ids), parents)), non_blocking=True)


def _told(length: int, token_ids: IntArray, parents: IntArray) -> Numbers:
    """The layout of `_Inputs`."""
    ancestors = _ancestors(parents)
    told = np.zeros((3, WIDEST), np.int64)
    told[0, : len(token_ids)] = token_ids
    told[1] = [length + bits.bit_count() - 1 for bits in ancestors]
    told[2] = np.array(ancestors, np.uint64).view(np.int64)
    return np.concatenate(([length], told.ravel()))


def _ancestors(parents: IntArray) -> list[int]:
    """Of `WIDEST` rows, as bits."""
    found = [1 << row for row in range(WIDEST)]
    for row, parent in enumerate(parents.tolist()):
        if parent >= 0:
            found[row] |= found[parent]
    return found


class GraphModel(Transformer):
    """A LanguageModel. The logits of a pass are valid until the next one; a pass that is replayed is not interrupted.

    Raises EngineUnavailable, WeightsCorrupt, OutOfMemory.
    """

    def __init__(
        self,
        shape: Shape,
        tensors: Mapping[str, Tensor],
        device: str = "cuda",
        dtype: str = "bfloat16",
        context: int = 4096,
        packing: Packing = as_it_is,
        graphs: Graphs | None = None,
        widths: Sequence[int] = WIDTHS,
    ) -> None:
        """`widths` ascend to `WIDEST`. With that one alone the logits of a line are bitwise those of one token at a
        time, as far as the device's kernels go by shapes only.
        """
        self._widths = tuple(widths)
        context = min(context, shape.context)
        spare = -(-(context + WIDEST) // SPAN) * SPAN - context
        super().__init__(shape, tensors, device, dtype, context, packing, spare)
        with memory_told(OutOfMemory, f"passes in a context of {context:,} tokens"):
            self._slots = torch.arange(context + spare, device=self._cos.device)
            self._inputs = _Inputs(self._cos.device)
            self._outputs = torch.zeros(WIDEST, shape.vocab, device=self._cos.device)
            self._best = torch.zeros(WIDEST, dtype=torch.int32, device=self._cos.device)
            self._outputs_here = torch.zeros(WIDEST, shape.vocab, pin_memory=self._cos.is_cuda)
            self._read_widely()
            self._passes = self._captured(graphs or (CudaGraphs() if self._cos.is_cuda else NoGraphs()))

    def forward(
        self, token_ids: Sequence[int] | IntArray, logit_rows: Sequence[int] = (), parents: Sequence[int] | None = None
    ) -> Pass:
        if len(token_ids) > WIDEST:
            return super().forward(token_ids, logit_rows, parents)
        self._interrupted = False
        self._parents = self._parents[:0]
        checked = checked_parents(len(token_ids), parents)
        check_room(len(token_ids), self.length, self.max_rows, self.context)
        self._inputs.fill(self.length, token_ids, checked)
        self._passes[next(width for width in self._widths if width >= len(token_ids))]()
        self._parents = checked
        if not len(logit_rows):
            return self._without_logits()
        rows = list(logit_rows)
        return Pass(partial(self._read, rows), best=self._best.cpu().numpy()[rows])

    def close(self) -> None:
        self._passes.clear()
        del self._inputs, self._outputs, self._best, self._outputs_here
        super().close()

    def _read_widely(self) -> None:
        """The longest pass, so that it is seen at once whether there is memory for it."""
        super().forward(np.zeros(self.max_rows, np.int32))
        self._parents = self._parents[:0]

    def _captured(self, graphs: Graphs) -> dict[int, Replay]:
        """By width; the widest first, whose memory the others use too."""
        return {width: graphs.capture(partial(self._pass, width)) for width in reversed(self._widths)}

    @torch.inference_mode()
    def _pass(self, width: int) -> None:
        """From `_inputs` to `_outputs` and `_best`, in tensors that stay where they are."""
        token_ids, positions, ancestors = self._inputs.rows(width)
        x = self._through_layers(token_ids, self._rows(positions, ancestors))
        self._outputs[:width] = self._logits(x)
        self._best[:width] = self._outputs[:width].argmax(-1)

    def _rows(self, positions: Tensor, ancestors: Tensor) -> Rows:
        width = len(positions)
        behind = self._slots - self._inputs.length  # [S] a slot's row of this pass, if it has one
        row = behind.clamp(0, width - 1)
        follows = (ancestors[:, None] >> row & 1).bool() & (behind >= 0) & (behind < width)
        seen = (behind < 0) | follows
        positions_there = torch.where(behind < 0, self._slots, positions[row])
        near = positions_there > positions[:, None] - (self.shape.window or self.context)
        masks = self._added(seen), self._added(seen & near)
        slots = self._inputs.length + self._slots[:width]
        return Rows(slots, self._cos[positions], self._sin[positions], *masks)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """PyTorch's fused kernels want as many heads of keys as of queries, or no mask; and they give a query to one
        core, which then reads all keys alone. That is too slow where queries are few: in passes of fixed shape, which
        look at the whole cache."""
        if k.shape[1] < len(self._slots):
            k, v = (one.repeat_interleave(len(q) // len(one), 0) for one in (k, v))
            return super()._attend(q, k, v, mask)
        scale = (self.shape.query_scalar or self.shape.head_dim) ** -0.5
        return _attend_in_spans(q, k, v, mask, scale, self.shape.attention_cap)

    def _read(self, rows: list[int]) -> FloatArray:
        """Logits of these rows of the last pass; waits for the device."""
        asked = slice(0, len(rows)) if rows == list(range(len(rows))) else self._on_device(rows)
        here = self._outputs_here[: len(rows)]
        here.copy_(self._outputs[asked])
        return here.numpy()


def open_model(checkpoint: Checkpoint, device: str, precision: str, context: int) -> GraphModel:
    """`precision` of the layers' matrices: "bfloat16" or "int4". Raises what GraphModel does."""
    from ghostdraft.models.tensors import read_tensors  # wants packages that random weights do without

    release()
    shape = checkpoint.spec.shape
    tensors = read_tensors(checkpoint.weights, shape)
    return GraphModel(shape, tensors, device, "bfloat16", context, pack if precision == "int4" else as_it_is)


def _attend_in_spans(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, cap: float | None) -> Tensor:
    """float32 [heads, R, head_dim] of queries like that, and keys and values [kv_heads, S, head_dim].

    Queries that share a head of keys are rows of one product, and the values of each `SPAN` slots are weighed by
    themselves, then added: so many cores read the cache (as in Dao et al. 2023, "Flash-Decoding").
    """
    shared, slots, dim = k.shape
    scores = product(q.reshape(shared, -1, dim), k.transpose(1, 2)).view(-1, *mask.shape)  # [heads, R, S]
    if cap is not None:
        scores, scale = cap * torch.tanh(scores * (scale / cap)), 1.0
    weights = torch.add(mask, scores, alpha=scale).softmax(-1)
    spans = weights.view(shared, -1, slots // SPAN, SPAN).transpose(1, 2)
    spans = spans.to(v.dtype, memory_format=torch.contiguous_format)  # [kv_heads, spans, group * R, SPAN]
    parts = product(spans.flatten(0, 1), v.reshape(-1, SPAN, dim))  # [kv_heads * spans, group * R, head_dim]
    return parts.view(shared, slots // SPAN, -1, dim).sum(1).view(q.shape)

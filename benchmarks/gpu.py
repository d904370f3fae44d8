"""What one token, a verified draft and a prompt cost on a GPU, beside the time that its memory needs for the bytes.

    python -m ghostdraft.benchmarks.gpu --output gpu.json

Nothing is downloaded: the weights are random, in the shapes of Qwen2.5-Coder 7B and 0.5B, whose vocabularies are padded
to 152,064 and 151,936 tokens. It ends within 8 minutes: what was not begun after 7 is left out. A measure that fails is
told and does not stop the others. `--device cpu --small` runs all of it in seconds anywhere.

It needs PyTorch 2.8 or later with CUDA, numpy, typer and rich, and 24 GB on the GPU. On a machine that has these, but
not this package and no index of packages, a copy of the checkout is enough:

    mkdir -p build/types/ghostdraft
    for part in lsp_server completion drafting models benchmarks; do ln -sfn "$PWD/$part" build/types/ghostdraft/; done
    PYTHONPATH=build/types python3 -u -m ghostdraft.benchmarks.gpu --output gpu.json
"""

from __future__ import annotations

import json
import platform
import statistics
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import numpy as np
import torch
import typer

from ghostdraft.benchmarks.gpu_drafts import Played, PlayedBy
from ghostdraft.benchmarks.gpu_models import LARGE, SMALL, Sizes, build
from ghostdraft.benchmarks.report import print_table
from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.types import Verify
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.drafting.types import Drafter
from ghostdraft.models.graphs import WIDEST, WIDTHS, CudaGraphs, GraphModel, NoGraphs, Replay
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.transformer import release
from ghostdraft.models.types import Shape

LIMIT = 7 * 60.0  # seconds: nothing is begun after that
KEPT = 512  # tokens in the cache while passes are timed
PROMPT = 128  # tokens, of the texts that are written
LINES = range(1, 33)  # rows
TREES = (16, 32, 64)
RIGHT = 0.85  # of the drafted tokens, as measured of Qwen2.5-Coder 0.5B for 1.5B
NEAR = 2**-6  # of the best logit: two that differ by less are a near-tie in bfloat16


@dataclass
class Report:
    """Everything found so far, by case and measure."""

    started: float = field(default_factory=time.monotonic)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def attempt(self, case: str, name: str, measure: Callable[[], Any]) -> None:
        """Keeps what it gives, or how it failed."""
        seconds = time.monotonic() - self.started
        if seconds > LIMIT:
            self.failed[f"{case}: {name}"] = "left out: no time"
            return
        say(f"{seconds:4.0f} s  {case}: {name}")
        try:
            self.found.setdefault(case, {})[name] = measure()
        except Exception as error:  # noqa: BLE001 (whatever it is, the others go on)
            self.failed[f"{case}: {name}"] = f"{type(error).__name__}: {error}"
            say(traceback.format_exc())


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    shape: Shape
    precision: str

    @property
    def label(self) -> str:
        return f"{self.name}, {self.precision}"


class BothWays:
    """Graphs, and by width what they were captured from. Where a capture fails, which is told, passes run without, so
    that there is something to measure."""

    def __init__(self, device: str) -> None:
        self._graphs = CudaGraphs() if device == "cuda" else NoGraphs()
        self.plain: list[Replay] = []
        self.replays: list[Replay] = []
        self.refused = 0

    def capture(self, run: Replay) -> Replay:
        self.plain.append(run)
        try:
            self.replays.append(self._graphs.capture(run))
        except RuntimeError:
            say(traceback.format_exc())
            self.refused += 1
            self.replays.append(run)
        return self.replays[-1]


def main(
    device: Annotated[str, typer.Option(help="cuda, or cpu as a stand-in.")] = "cuda",
    small: Annotated[bool, typer.Option("--small", help="Tiny shapes: whether it works, not how fast.")] = False,
    output: Annotated[Path, typer.Option(help="Where the figures go, as JSON.")] = Path("gpu.json"),
) -> None:
    """Measure decoding at batch 1 on a GPU."""
    report = Report()
    sizes = SMALL if small else LARGE
    report.attempt("machine", "facts", partial(facts, device, small))
    for case in cases(sizes):
        measure(report, case, sizes, device)
    for case in cases(sizes)[:2]:
        report.attempt(case.label, "identity", partial(identity, case, sizes, device))
    report.attempt("pair", "decoding", partial(pair, sizes, device))
    output.write_text(json.dumps({"found": report.found, "failed": report.failed}, indent=1) + "\n", encoding="utf-8")
    show(report)


def cases(sizes: Sizes) -> list[Case]:
    shapes = (("0.5B", sizes.draft), ("7B", sizes.target))
    return [Case(name, shape, precision) for precision in ("bfloat16", "int4") for name, shape in shapes]


def facts(device: str, small: bool) -> dict[str, Any]:
    named = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    speed = bandwidth(device, 1 << (24 if small else 31))
    return {"device": named, "small": small, "torch": torch.__version__, "bandwidth": speed}


def bandwidth(device: str, size: int) -> float:
    """Bytes a second that a copy of `size` bytes reads and writes."""
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds(device, lambda: target.copy_(source))


def measure(report: Report, case: Case, sizes: Sizes, device: str) -> None:
    """All of one model but its identity."""
    ways = BothWays(device)
    held: list[GraphModel] = []
    report.attempt(case.label, "loading", partial(loading, held, case, sizes, device, ways))
    for model in held:
        for name, one in (("memory", memory), ("prefill", prefill), ("lines", lines), ("trees", trees)):
            report.attempt(case.label, name, partial(one, model, device))
        report.attempt(case.label, "graphs", partial(graph_against_plain, ways, device))
        model.close()


def loading(held: list[GraphModel], case: Case, sizes: Sizes, device: str, ways: BothWays) -> dict[str, float]:
    """Into `held`. Seconds, with the making of the random weights, and the captures."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    held.append(build(case.shape, sizes, device, case.precision, ways))
    return {"seconds": time.perf_counter() - started}


def memory(model: GraphModel, device: str) -> dict[str, int]:
    """Bytes."""
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return {"weights": model.weight_bytes, "cache": model.cache_bytes, "peak": peak}


def prefill(model: GraphModel, device: str) -> dict[str, float]:
    """A cold prompt of half the context in the widest passes."""
    prompt = tokens(model.context // 2)

    def read() -> None:
        model.truncate(0)
        extend(model, prompt)

    return {"tokens": len(prompt), "tokens_per_second": len(prompt) / seconds(device, read)}


def lines(model: GraphModel, device: str) -> dict[int, float]:
    """v(k): milliseconds of a pass over k rows, until the best token of each is here."""
    keep_some(model)
    return {rows: timed(model, device, range(-1, rows - 1)) for rows in LINES}


def trees(model: GraphModel, device: str) -> dict[int, float]:
    """Milliseconds, of trees in which each row has two children."""
    keep_some(model)
    return {rows: timed(model, device, [(row - 1) // 2 for row in range(rows)]) for rows in TREES}


def timed(model: GraphModel, device: str, parents: Sequence[int]) -> float:
    rows = tokens(len(parents))
    return 1000 * seconds(device, lambda: model.forward(rows, range(len(rows)), parents))


def graph_against_plain(ways: BothWays, device: str) -> dict[str, float]:
    """Milliseconds of the narrowest pass alone, with nothing brought to the host; and how many captures failed."""
    found = {"graph": ways.replays[-1], "plain": ways.plain[-1]}
    return {"refused": ways.refused, **{name: 1000 * seconds(device, run) for name, run in found.items()}}


def identity(case: Case, sizes: Sizes, device: str) -> dict[str, Any]:
    """Greedy decoding with drafts against one token at a time: once with all passes padded to one width, where a line
    must give the very same, and once with the nearest width, where each first difference is a near-tie."""
    found = {}
    for name, widths in (("padded", (WIDEST,)), ("nearest", WIDTHS)):
        release()
        model = build(case.shape, sizes, device, case.precision, BothWays(device), widths)
        found[name] = {kind: compare(model, sizes, kind == "tree") for kind in ("line", "tree")}
        model.close()
    return found


def compare(model: GraphModel, sizes: Sizes, tree: bool) -> dict[str, int]:
    """Counts of tokens, and of texts by how they first differ."""
    count = sizes.written
    found = {"tokens": 0, "same": 0, "near_ties": 0, "others": 0}
    for seed in range(sizes.texts):
        prompt = tokens(PROMPT, seed, sizes.words)
        alone = decode(model, NoDrafter(), prompt, count)
        drafted = decode(model, Played(alone, 12, RIGHT, tree), prompt, count)
        found["tokens"] += count
        if drafted == alone:
            found["same"] += count
            continue
        at = next(i for i, (one, other) in enumerate(zip(alone, drafted, strict=True)) if one != other)
        found["same"] += at
        found["near_ties" if near_tie(model, [*prompt, *alone[:at]]) else "others"] += 1
    return found


def near_tie(model: GraphModel, token_ids: Sequence[int]) -> bool:
    """Whether the two best logits behind these tokens differ by rounding only."""
    model.truncate(0)
    extend(model, token_ids[:-1])
    second, first = np.sort(model.forward(token_ids[-1:], [0]).logits[0])[-2:]
    return bool(first - second <= NEAR * abs(first))


def pair(sizes: Sizes, device: str) -> dict[str, float]:
    """Tokens a second of the target alone and with drafts of which `RIGHT` are right: given for nothing, and with the
    passes of the draft model."""
    target, draft = (build(shape, sizes, device, "bfloat16", BothWays(device)) for shape in (sizes.target, sizes.draft))
    prompt, count = tokens(PROMPT, 0, sizes.words), sizes.written
    text = decode(target, NoDrafter(), prompt, count)
    drafters: dict[str, Drafter] = {"alone": NoDrafter()}
    for length in (4, 8):
        drafters[f"{length} drafted for nothing"] = Played(text, length, RIGHT)
        drafters[f"{length} by the draft model"] = PlayedBy(draft, text, length, RIGHT)
    found = {name: rate(target, drafter, prompt, count) for name, drafter in drafters.items()}
    for model in (target, draft):
        model.close()
    return found


def rate(model: GraphModel, drafter: Drafter, prompt: Sequence[int], count: int) -> float:
    decoder = Decoder(model, drafter, Sampling.GREEDY)
    decoder.forget()
    steps = [step for step in decoder.run(prompt, (), count, (), Event()) if isinstance(step, Verify)]
    return sum(len(step.token_ids) for step in steps) / sum(step.seconds for step in steps)


def decode(model: GraphModel, drafter: Drafter, prompt: Sequence[int], count: int) -> list[int]:
    """From a cold cache."""
    decoder = Decoder(model, drafter, Sampling.GREEDY)
    decoder.forget()
    steps = decoder.run(prompt, (), count, (), Event())
    return [token for step in steps if isinstance(step, Verify) for token in step.token_ids]


def keep_some(model: GraphModel) -> None:
    model.truncate(0)
    extend(model, tokens(min(KEPT, model.context - WIDEST)))


def extend(model: GraphModel, token_ids: Sequence[int]) -> None:
    for at in range(0, len(token_ids), model.max_rows):
        chunk = token_ids[at : at + model.max_rows]
        model.forward(chunk)
        model.keep(range(len(chunk)))


def tokens(count: int, seed: int = 0, words: int = 500) -> list[int]:
    found: list[int] = np.random.default_rng(seed).integers(0, words, count).tolist()
    return found


def seconds(device: str, run: Callable[[], object]) -> float:
    """The median of ten runs behind three others, until the device has finished; of a stand-in one run."""
    if device != "cuda":
        return spent(run)

    def finished() -> None:
        run()
        torch.cuda.synchronize()

    return statistics.median([spent(finished) for _ in range(3 + 10)][3:])


def spent(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def say(line: str) -> None:
    typer.echo(line, err=True)


# ---- tables


def show(report: Report) -> None:
    machine = report.found.get("machine", {}).get("facts", {})
    speed = machine.get("bandwidth")
    rated = f"{speed / 1e9:,.0f} GB/s" if speed else "bandwidth unknown"
    print_table("Passes", PASSES, (passes_row(*one, speed) for one in models(report)), [f"{machine}", rated])
    print_table("Milliseconds of a pass", ("model", *map(str, SHOWN)), (widths_row(*one) for one in models(report)), ())
    print_table("Identity", IDENTITY, identity_rows(report), ())
    pairs = report.found.get("pair", {}).get("decoding", {})
    print_table("Target and draft", ("drafts", "tokens/s"), ((name, f"{of:.1f}") for name, of in pairs.items()), ())
    for name, problem in report.failed.items():
        typer.echo(f"FAILED {name}: {problem}")


PASSES = ("model", "one row, ms", "floor, ms", "ratio", "graph, ms", "plain, ms", "prefill, tokens/s", "peak, GB")
SHOWN = (1, 2, 4, 8, 16, 32, *(f"tree {rows}" for rows in TREES))
IDENTITY = ("model", "widths", "drafts", "tokens", "the same", "near-ties", "other differences")


def models(report: Report) -> list[tuple[str, dict[str, Any]]]:
    return [(case, found) for case, found in report.found.items() if "loading" in found]


def passes_row(case: str, found: dict[str, Any], speed: float | None) -> list[str]:
    step, of = found.get("lines", {}).get(1), found.get("memory", {})
    floor = 1000 * of["weights"] / speed if of and speed else None
    graph = found.get("graphs", {})
    ratio = step / floor if step and floor else None
    figures = (step, floor, ratio, graph.get("graph"), graph.get("plain"))
    rate, peak = found.get("prefill", {}).get("tokens_per_second"), of.get("peak", 0) / 1e9
    return [case, *map(number, figures), number(rate), number(peak)]


def widths_row(case: str, found: dict[str, Any]) -> list[str]:
    both = {**found.get("lines", {}), **{f"tree {rows}": ms for rows, ms in found.get("trees", {}).items()}}
    return [case, *(number(both.get(width)) for width in SHOWN)]


def identity_rows(report: Report) -> Iterable[list[str]]:
    for case, found in report.found.items():
        for widths, kinds in found.get("identity", {}).items():
            for kind, counts in kinds.items():
                yield [case, widths, kind, *map(str, counts.values())]


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    typer.run(main)

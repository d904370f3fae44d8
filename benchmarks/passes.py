"""Passes of the CPU engine against those of llama.cpp: the same file or its Q8_0, two threads each, in turns.

    python -m ghostdraft.benchmarks.passes --model tiny

llama.cpp is compiled for this machine (`llama_build`). Of the file and its Q8_0, with and without flash attention, the
fastest stands for it, chosen anew for each measure. In each round one engine is timed, then the other; a ratio is the
median over the rounds. The two never run at the same time. Our 8 rows, our one row and its floor, reading the weights
once and doing nothing with them, follow each other at once, as the machine's pace changes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from ghostdraft.benchmarks import llama_build
from ghostdraft.benchmarks.bandwidth import Weights
from ghostdraft.benchmarks.decode import quartiles
from ghostdraft.benchmarks.json_lines import PeerFailed
from ghostdraft.benchmarks.llama_peer import Llama
from ghostdraft.benchmarks.report import Bar, deliver, machine_line, print_table
from ghostdraft.completion.decode import Decoder
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models.load import Loaded, load
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.store import Store, default_home
from ghostdraft.models.types import ModelError, Tokenizer

PROMPT = 1200  # tokens
WIDTHS = (1, 4, 8, 16)  # rows of a pass
TURNS = 3  # a round, of what is held against our own
BURST = 6  # passes of one engine before the other's turn; the first only warms up
CONTEXT = 2048
THREADS = 2
PAUSE = 0.05  # seconds, in which the other engine's threads fall asleep
PREFILL = "cold prefill, a token"
COLUMNS = ("milliseconds", "ghostdraft", "llama.cpp", "ratio (quartiles)", "its fastest", "rounds")

Pair = tuple[float, float]  # milliseconds, ours and theirs


@dataclass(frozen=True, slots=True)
class Comparison:
    """Milliseconds, medians over the rounds; `ratio` is ours over theirs, below 1 where ours is faster."""

    measure: str
    ours_ms: float
    peer_ms: float
    ratio: float
    ratio_quartiles: tuple[float, float]
    peer: str
    rounds: int


class Ours:
    """The CPU engine behind the decoder that a user runs."""

    def __init__(self, loaded: Loaded, prompt: Sequence[int]) -> None:
        self._decoder = Decoder(loaded.model, NoDrafter(), Sampling.GREEDY)
        self._model = loaded.model
        self._prompt = prompt

    def prefill(self) -> float:
        """A cold prompt up to the first token behind it: milliseconds a token."""
        self._decoder.forget()
        start = time.perf_counter()
        for _ in self._decoder.run(self._prompt, (), 1, (), Event()):
            pass
        return _since(start) / len(self._prompt)

    def forget(self) -> None:
        """No prompt stands before the next passes."""
        self._decoder.forget()

    def step(self, rows: int) -> float:
        """A pass over so many rows behind the prompt, logits of each; they are not kept."""
        tokens, times = self._prompt[:rows], []
        for _ in range(BURST):
            start = time.perf_counter()
            self._model.forward(tokens, range(rows))
            times.append(_since(start))
        return statistics.median(times[1:])


class Theirs:
    """llama.cpp; the fastest of its variants for each measure, found by trying each once."""

    def __init__(self, llama: Llama, prompt: Sequence[int]) -> None:
        self._llama, self._prompt = llama, prompt
        self._prefills = {variant: self._prefill(variant) for variant in llama.variants}
        self.fastest = {PREFILL: min(self._prefills, key=self._prefills.__getitem__)}
        for rows in WIDTHS:
            times = {variant: self._step(variant, rows) for variant in llama.variants}
            self.fastest[_width(rows)] = min(times, key=times.__getitem__)

    def prefill(self) -> float:
        return self._prefill(self.fastest[PREFILL])

    def step(self, rows: int) -> float:
        return self._step(self.fastest[_width(rows)], rows)

    def _prefill(self, variant: str) -> float:
        return float(self._llama.ask("prefill", name=variant, tokens=self._prompt)) / len(self._prompt)

    def _step(self, variant: str, rows: int) -> float:
        times: list[float] = self._llama.ask("step", name=variant, tokens=self._prompt[:rows], repeat=BURST)
        return statistics.median(times[1:])


@dataclass(slots=True)
class Within:
    """Ratios of our own times."""

    wider: list[float]  # 8 rows over one row
    above: list[float]  # one row over its floor
    bare: list[float]  # the same behind no text, whose keys and values have to be read too
    bandwidth: list[float]  # bytes a second

    def take(self, ours: Ours, weights: Weights) -> None:
        one = ours.step(1)
        self.wider.append(ours.step(8) / one)
        self.above.append(one / self._floor(weights))

    def take_bare(self, ours: Ours, weights: Weights) -> None:
        self.bare.append(ours.step(1) / self._floor(weights))

    def _floor(self, weights: Weights) -> float:
        """Milliseconds."""
        seconds = min(weights.seconds() for _ in range(BURST))
        self.bandwidth.append(weights.bytes / seconds)
        return 1e3 * seconds


def compare(loaded: Loaded, llama: Llama, weights: Weights, rounds: int, bar: Bar) -> tuple[list[Comparison], Within]:
    """Each measure once a round."""
    prompt = code(loaded.tokenizer)
    ours, theirs = Ours(loaded, prompt), Theirs(llama, prompt)
    ours.prefill()
    turns = _turns(ours, theirs)
    pairs: dict[str, list[Pair]] = {measure: [] for measure in turns}
    within = Within([], [], [], [])
    for done in range(rounds):
        for measure, (our_turn, their_turn) in turns.items():
            bar.show(done, rounds, measure)
            pairs[measure].append(_pair(our_turn, their_turn))
        for _ in range(TURNS):
            within.take(ours, weights)
    ours.forget()
    for _ in range(TURNS * rounds):
        within.take_bare(ours, weights)
    compared = [_comparison(measure, found, theirs.fastest[measure]) for measure, found in pairs.items()]
    return compared, within


def _turns(ours: Ours, theirs: Theirs) -> dict[str, tuple[Callable[[], float], Callable[[], float]]]:
    """By measure, ours and theirs."""
    steps = {_width(rows): (partial(ours.step, rows), partial(theirs.step, rows)) for rows in WIDTHS}
    return {PREFILL: (ours.prefill, theirs.prefill), **steps}


def _pair(ours: Callable[[], float], theirs: Callable[[], float]) -> Pair:
    time.sleep(PAUSE)
    mine = ours()
    time.sleep(PAUSE)
    return mine, theirs()


def _comparison(measure: str, pairs: Sequence[Pair], peer: str) -> Comparison:
    low, median, high = quartiles([ours / theirs for ours, theirs in pairs])
    ours_ms, peer_ms = (statistics.median(times) for times in zip(*pairs, strict=True))
    return Comparison(measure, ours_ms, peer_ms, median, (low, high), peer, len(pairs))


def code(tokenizer: Tokenizer, tokens: int = PROMPT) -> list[int]:
    """A prompt: code that every Python has."""
    text = Path(argparse.__file__).read_text(encoding="utf-8")
    return tokenizer.encode(text)[:tokens]


def _width(rows: int) -> str:
    return "one-token step" if rows == 1 else f"{rows} rows"


def _since(start: float) -> float:
    return 1e3 * (time.perf_counter() - start)


def report(name: str, rounds: int) -> dict[str, Any]:
    """Everything that the table shows, as JSON. Raises ModelError, PeerFailed."""
    build = llama_build.native()
    loaded = load(name, "cpu", CONTEXT, THREADS)
    with Llama(*files(name), CONTEXT, THREADS, build.environment) as llama, Bar(name) as bar:
        weights = Weights(Store().find(name).cpu_weights, THREADS)
        found, within = compare(loaded, llama, weights, rounds, bar)
        compiled = llama.ask("system")
    return {
        "model": name,
        "comparisons": [asdict(one) for one in found],
        "ours_8_rows_over_1": quartiles(within.wider),
        "ours_1_row_over_floor": quartiles(within.above),
        "ours_1_bare_row_over_floor": quartiles(within.bare),
        "weights_mb": weights.bytes / 1e6,
        "bandwidth_gb": statistics.median(within.bandwidth) / 1e9,
        "peer": f"{build.about}, {compiled}",
        "machine": machine_line(loaded.model),
    }


def files(name: str) -> tuple[Path, Path]:
    """The model's GGUF file, and where its Q8_0 lies or will lie."""
    return Store().find(name).weights[0], default_home() / "bench" / f"{name}-q8_0.gguf"


def rows(result: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for one in result["comparisons"]:
        low, high = one["ratio_quartiles"]
        ratio = f"{one['ratio']:.2f} ({low:.2f} to {high:.2f})"
        yield one["measure"], f"{one['ours_ms']:.2f}", f"{one['peer_ms']:.2f}", ratio, one["peer"], str(one["rounds"])


def show(result: dict[str, Any]) -> None:
    title = f"{result['model']} behind {PROMPT} tokens, {THREADS} threads each"
    print_table(title, COLUMNS, rows(result), (*said(result), result["peer"], result["machine"]))


def said(result: dict[str, Any]) -> Sequence[str]:
    """What our own times say of each other."""
    wider, above, bare = (
        f"{middle:.2f} times ({low:.2f} to {high:.2f})"
        for low, middle, high in (
            result[f"ours_{ratio}"] for ratio in ("8_rows_over_1", "1_row_over_floor", "1_bare_row_over_floor")
        )
    )
    floor = f"{result['weights_mb']:.0f} MB of weights, which are read at {result['bandwidth_gb']:.1f} GB/s"
    return f"8 rows take {wider} one row", f"one row takes {above} its floor, behind no text {bare}: {floor}"


def main(
    model: Annotated[str, typer.Option(help="A model that came as one GGUF file.")] = "tiny",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each engine for each measure.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare passes of the CPU engine with those of llama.cpp."""
    deliver(partial(report, model, rounds), show, as_json, ModelError, PeerFailed)


if __name__ == "__main__":
    typer.run(main)

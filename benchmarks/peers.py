"""Decoding at holes, beside the peers: the same prompts and as many tokens, two threads each, in turns.

    python -m ghostdraft.benchmarks.peers --model tiny

llama.cpp is compiled for this machine (`llama_build`) and runs plain and with each of its n-gram modes; of the GGUF
file and its Q8_0 the faster stands for it, anew for each mode. xllamacpp and transformers have rows where this Python
has them, vLLM where its own is named. One writes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ghostdraft.benchmarks import llama_build, peer_cancel, peer_decode
from ghostdraft.benchmarks.contenders import Ours
from ghostdraft.benchmarks.decode import MOST_TOKENS, Bench
from ghostdraft.benchmarks.decode_table import listed_cursors
from ghostdraft.benchmarks.holes import Cursor
from ghostdraft.benchmarks.json_lines import PeerFailed
from ghostdraft.benchmarks.passes import CONTEXT, THREADS, code
from ghostdraft.benchmarks.peer_decode import Times
from ghostdraft.benchmarks.peer_field import Field
from ghostdraft.benchmarks.report import Bar, deliver, machine_line, print_table
from ghostdraft.drafting.measuring import measure_once
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models.load import load
from ghostdraft.models.types import ModelError

HOLES = 12
ROUNDS = 3
OURS = "ghostdraft, ngram"  # what all are held against
COLUMNS = ("decoding", "its fastest", "tokens/s", "ghostdraft ngram is faster by", "quartiles by hole")


def report(name: str, cursors: int, rounds: int, vllm_python: Path | None) -> dict[str, Any]:
    """Everything that the table shows, as JSON. Raises ModelError, PeerFailed."""
    build = llama_build.native()
    places, digest = listed_cursors(cursors)
    loaded = load(name, "cpu", CONTEXT, THREADS)
    measure_once(loaded.model, loaded.costs)
    with ExitStack() as stack, Bar(name) as bar:
        field = Field.open(loaded, build, stack)
        times, notes = _decoding(field, places, rounds, vllm_python, bar)
        silent = peer_cancel.measure(field.plain(), code(loaded.tokenizer))
    rows = peer_decode.rows(times, OURS)
    return {
        "model": name,
        "rows": [asdict(row) for row in rows],
        "best_llama_cpp": peer_decode.fastest(rows, "llama.cpp").name,
        "holes": len(places),
        "tokens": sum(times[0].tokens),
        "rounds": rounds,
        "llama_cpp_silent_ms": silent,
        "holes_sha256": digest,
        "notes": [build.about, *notes],
        "machine": machine_line(loaded.model),
    }


def _decoding(
    field: Field, places: Sequence[Cursor], rounds: int, vllm_python: Path | None, bar: Bar
) -> tuple[list[Times], list[str]]:
    """What each took; and a sentence for each that is left out."""
    drafters = NoDrafter(), NgramDrafter()
    bench = Bench(field.loaded, drafters, MOST_TOKENS)
    entries = list(field.entries(vllm_python))
    everyone = [*(Ours(bench, drafter) for drafter in drafters), *(one for found, _ in entries for one in found)]
    times = peer_decode.measure(
        bench.read, everyone, places, rounds, lambda done, who: bar.show(done, len(places), who)
    )
    return times, [note for _, note in entries if note]


def show(result: dict[str, Any]) -> None:
    rows = [cells(row) for row in result["rows"]]
    title = f"{result['model']}: {result['holes']} holes, {result['tokens']} tokens, {THREADS} threads each"
    holes = f"holes: sha256 {result['holes_sha256']}"
    print_table(title, COLUMNS, rows, (*said(result), *result["notes"], holes, result["machine"]))


def said(result: dict[str, Any]) -> Sequence[str]:
    """The rows in two sentences."""
    ratio = next(row["ratio"] for row in result["rows"] if row["name"] == result["best_llama_cpp"])
    return f"{OURS}, decodes {ratio:.2f} times as fast as {result['best_llama_cpp']}, its best mode", silence(result)


def silence(result: dict[str, Any]) -> str:
    """How llama.cpp is cancelled."""
    of = result["llama_cpp_silent_ms"]
    reading, decoding = ("{p50:.0f} ms (at most {most:.0f})".format(**of[key]) for key in ("reading", "decoding"))
    return (
        f"When its client hangs up, llama.cpp's server falls silent after {reading} while it reads a prompt, after "
        f"{decoding} while it decodes; medians of {of['count']}"
    )


def cells(row: dict[str, Any]) -> Sequence[str]:
    low, median, high = row["ratio_quartiles"]
    speed, ratio = f"{row['tokens_per_second']:.1f}", f"{row['ratio']:.2f}"
    return row["name"], row["variant"], speed, ratio, f"{low:.2f}, {median:.2f}, {high:.2f}"


def main(
    model: Annotated[str, typer.Option(help="A model that came as one GGUF file.")] = "tiny",
    cursors: Annotated[int, typer.Option(min=1, help="How many holes, from the start of the list.")] = HOLES,
    rounds: Annotated[int, typer.Option(min=1, help="How often each writes at each hole.")] = ROUNDS,
    vllm_python: Annotated[Path | None, typer.Option(help="The Python that has vLLM.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare decoding with llama.cpp, xllamacpp, transformers and vLLM."""
    deliver(partial(report, model, cursors, rounds, vllm_python), show, as_json, ModelError, PeerFailed)


if __name__ == "__main__":
    typer.run(main)

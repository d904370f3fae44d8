"""Decoding at holes, beside the peers: the same prompts and as many tokens, two threads each, in turns.

    python -m ghostdraft.benchmarks.peers --model tiny

llama.cpp is compiled for this machine (`llama_build`) and runs plain and with each of its n-gram modes; of the GGUF
file and its Q8_0 the faster stands for it, anew for each mode. xllamacpp and transformers have rows where this Python
has them, vLLM where its own is named. One writes at a time. How peers stop is `cancel`'s to measure.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from ghostdraft.benchmarks import contenders, llama_build, llama_server, peer_decode, vllm_peer
from ghostdraft.benchmarks.contenders import Contender, Ours, Served
from ghostdraft.benchmarks.decode import MOST_TOKENS, Bench
from ghostdraft.benchmarks.decode_table import listed_cursors
from ghostdraft.benchmarks.json_lines import PeerFailed, PeerProcess
from ghostdraft.benchmarks.llama_peer import Llama, variant
from ghostdraft.benchmarks.llama_server import MODES, Serving
from ghostdraft.benchmarks.passes import BURST, CONTEXT, THREADS, code, files
from ghostdraft.benchmarks.report import Bar, machine_line, print_table
from ghostdraft.drafting.measuring import measure_now
from ghostdraft.drafting.ngram import NgramDrafter
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models.load import Loaded, load
from ghostdraft.models.recommend import fitting_drafts
from ghostdraft.models.registry import MODELS
from ghostdraft.models.store import Store, default_home
from ghostdraft.models.types import ModelError

HOLES = 12
ROUNDS = 3
OURS = "ghostdraft, ngram"  # what all are held against
Variant = tuple[str, Path, bool]  # "GGUF" or "Q8_0", the file, and whether with flash attention

COLUMNS = ("decoding", "its fastest", "tokens/s", "ghostdraft ngram is faster by", "quartiles by hole")


Entry = tuple[Sequence[Contender], str]  # of one peer; and where it is left out, a sentence


def report(name: str, cursors: int, rounds: int, vllm_python: Path | None) -> dict[str, Any]:
    """Everything that the table shows, as JSON. Raises ModelError, PeerFailed."""
    build = llama_build.native()
    places, digest = listed_cursors(cursors)
    loaded = load(name, "cpu", CONTEXT, THREADS)
    if loaded.costs.read() is None:
        measure_now(loaded.model, loaded.costs)
    drafters = NoDrafter(), NgramDrafter()
    bench = Bench(loaded, drafters, MOST_TOKENS)
    with ExitStack() as stack, Bar(name) as bar:
        entries = [([Ours(bench, drafter) for drafter in drafters], ""), *_peers(loaded, build, vllm_python, stack)]
        everyone = [contender for found, _ in entries for contender in found]
        times = peer_decode.measure(
            bench.read, everyone, places, rounds, lambda done, who: bar.show(done, len(places), who)
        )
    return {
        "model": name,
        "rows": peer_decode.as_json(peer_decode.rows(times, OURS)),
        "holes": len(places),
        "tokens": sum(times[0].tokens),
        "rounds": rounds,
        "holes_sha256": digest,
        "notes": [build.about, *(note for _, note in entries if note)],
        "machine": machine_line(loaded.model),
    }


def _peers(loaded: Loaded, build: llama_build.Build, vllm_python: Path | None, stack: ExitStack) -> Iterator[Entry]:
    """What they start ends with `stack`."""
    name, states = loaded.spec.name, Path(stack.enter_context(tempfile.TemporaryDirectory()))
    variants = _variants(loaded, build)
    yield _llama_cpp(build, variants, states), ""
    yield _xllamacpp(variants, states)
    if not contenders.installed("torch", "transformers", "accelerate"):
        yield [], contenders.NO_TRANSFORMERS
        return
    process = stack.enter_context(PeerProcess(contenders.TRANSFORMERS, contenders.NO_TRANSFORMERS))
    yield _transformers(name, process)
    yield _vllm(name, process, vllm_python, stack)


def _llama_cpp(build: llama_build.Build, variants: Sequence[Variant], states: Path) -> list[Contender]:
    return [
        Served(f"llama.cpp, {mode}", kind, llama_server.native(build.server, mode), _serving(path, flash, states))
        for mode in MODES
        for kind, path, flash in variants
    ]


def _xllamacpp(variants: Sequence[Variant], states: Path) -> Entry:
    if not contenders.installed("xllamacpp"):
        return [], contenders.NO_XLLAMACPP
    own = states / "xllamacpp"  # another version may keep prompts another way
    return [
        Served("xllamacpp, plain", kind, contenders.xllamacpp, _serving(path, flash, own))
        for kind, path, flash in variants
    ], ""


def _transformers(name: str, process: PeerProcess) -> Entry:
    draft = _draft(name)
    found = list(contenders.transformers(process, files(name)[0], draft, THREADS))
    return found, "" if draft else f"transformers, assisted is left out: no smaller model here can assist {name}."


def _vllm(name: str, process: PeerProcess, python: Path | None, stack: ExitStack) -> Entry:
    if python is None:
        return [], vllm_peer.ABSENT
    folder = vllm_peer.exported(process, Store().find(name), default_home() / "bench" / f"{name}-bfloat16")
    return list(vllm_peer.servers(python, folder, CONTEXT, THREADS, stack)), ""


def _variants(loaded: Loaded, build: llama_build.Build) -> list[Variant]:
    """The GGUF file and its Q8_0, each with flash attention where that makes its one-token step faster."""
    gguf, requantised = files(loaded.spec.name)
    with Llama(gguf, requantised, CONTEXT, THREADS, build.environment) as llama:
        return [
            (kind, path, _flash_pays(llama, kind, code(loaded)))
            for kind, path in (("GGUF", gguf), ("Q8_0", requantised))
        ]


def _serving(path: Path, flash: bool, states: Path) -> Serving:
    folder = states / f"{path.stem}-{flash}"
    folder.mkdir(parents=True, exist_ok=True)
    return Serving(path, flash, CONTEXT, THREADS, folder)


def _flash_pays(llama: Llama, kind: str, prompt: Sequence[int]) -> bool:
    times = list[float]()
    for flash in (False, True):
        llama.ask("prefill", name=variant(kind, flash), tokens=prompt)
        times.append(min(llama.ask("step", name=variant(kind, flash), tokens=prompt[:1], repeat=BURST)))
    plain, with_flash = times
    return with_flash < plain


def _draft(name: str) -> Path | None:
    """The file of a smaller model of its family that is here."""
    known = fitting_drafts(MODELS[name]) if name in MODELS else []
    here = [draft.name for draft in known if Store().has(draft.name)]
    return files(here[0])[0] if here else None


def show(result: dict[str, Any]) -> None:
    rows = [cells(row) for row in result["rows"]]
    title = f"{result['model']}: {result['holes']} holes, {result['tokens']} tokens, {THREADS} threads each"
    holes = f"holes: sha256 {result['holes_sha256']}"
    print_table(title, COLUMNS, rows, (*result["notes"], holes, result["machine"]))


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
    try:
        result = report(model, cursors, rounds, vllm_python)
    except (ModelError, PeerFailed) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    else:
        show(result)


if __name__ == "__main__":
    typer.run(main)

"""How faithful an engine is: teacher-forced on code of the standard library, against float32 on the same weights.

    python -m ghostdraft.benchmarks.fidelity --model tiny --tokens 20000 --engines cpu,llama.cpp

Two references: the transformer in PyTorch, and transformers' own model. Their scores are kept on disk, under the
checksum of the weights and the hash of the text, because they take minutes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from platformdirs import user_cache_path

from ghostdraft.benchmarks.report import Bar, deliver, print_table
from ghostdraft.benchmarks.scores import Ints, Scores, join, score
from ghostdraft.models import tokenizer
from ghostdraft.models.checkpoint import Checkpoint
from ghostdraft.models.store import Store
from ghostdraft.models.types import EngineUnavailable, LanguageModel, ModelError

WINDOW = 512
CHUNK = 128
COLUMNS = ("engine", "reference", "tokens", "same best token", "nats a token")

Scorer = Callable[[Checkpoint, Ints], Iterator[Scores]]  # one Scores a window


@dataclass(frozen=True, slots=True)
class Fidelity:
    """`agreement`: share of positions with the reference's best token; `nll_rise`: in nats a token, mean."""

    model: str
    engine: str
    reference: str
    tokens: int
    text: str  # hash of the token ids
    agreement: float
    nll: float
    nll_rise: float


def measure(checkpoint: Checkpoint, tokens: int, engines: list[str], peer: Path, bar: Bar) -> list[Fidelity]:
    windows = text_windows(checkpoint, tokens)
    scorers = {name: _scorer(name, peer) for name in engines}
    expected = {name: kept_scores(checkpoint, windows, name, bar) for name in REFERENCES}
    measured = {name: join(list(_watched(bar, name, scorers[name], checkpoint, windows))) for name in engines}
    return [
        compare(checkpoint.name, windows, (engine, scores), (reference, expected[reference]))
        for engine, scores in {"torch": expected["torch"], **measured}.items()
        for reference in REFERENCES
        if engine != reference
    ]


def compare(model: str, windows: Ints, engine: tuple[str, Scores], reference: tuple[str, Scores]) -> Fidelity:
    scores, expected = engine[1], reference[1]
    return Fidelity(
        model=model,
        engine=engine[0],
        reference=reference[0],
        tokens=scores.best.size,
        text=_text_hash(windows),
        agreement=float((scores.best == expected.best).mean()),
        nll=float(-scores.log_prob.mean()),
        nll_rise=float((expected.log_prob - scores.log_prob).mean()),
    )


def text_windows(checkpoint: Checkpoint, tokens: int) -> Ints:
    """[W, 512] token ids, each window from the middle of a module of the standard library."""
    encode = tokenizer.load(checkpoint.tokenizer_path).encode
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    long_enough = [path for path in modules if path.stat().st_size > 16 * WINDOW]
    wanted = -(-tokens // (WINDOW - 1))
    chosen = [long_enough[i * len(long_enough) // wanted] for i in range(wanted)]
    return np.array([_middle(encode(path.read_text("utf-8"))) for path in chosen], np.int32)


def _middle(token_ids: list[int]) -> list[int]:
    start = (len(token_ids) - WINDOW) // 2
    return token_ids[start : start + WINDOW]


def _text_hash(windows: Ints) -> str:
    return hashlib.sha256(windows.tobytes()).hexdigest()[:16]


def kept_scores(checkpoint: Checkpoint, windows: Ints, reference: str, bar: Bar) -> Scores:
    """A reference's scores; those of a window that was scored before come from the disk."""
    model = f"{_checksum(checkpoint)}-{reference}-{version(reference)}"
    paths = [user_cache_path("ghostdraft") / "fidelity" / model / f"{_text_hash(window)}.npz" for window in windows]
    missing = [index for index, path in enumerate(paths) if not path.exists()]
    found = _watched(bar, reference, REFERENCES[reference], checkpoint, windows[missing])
    for index, scores in zip(missing, found, strict=False):
        scores.save(paths[index])
    return join([Scores.load(path) for path in paths])


def _checksum(checkpoint: Checkpoint) -> str:
    weights = {path.name for path in checkpoint.weights}
    together = "".join(file.sha256 for file in checkpoint.files if file.name in weights)
    return hashlib.sha256(together.encode()).hexdigest()[:16]


def _watched(bar: Bar, name: str, scorer: Scorer, checkpoint: Checkpoint, windows: Ints) -> Iterator[Scores]:
    for done, scores in enumerate(scorer(checkpoint, windows), start=1):
        bar.show(done, len(windows), name)
        yield scores


def _scorer(engine: str, peer: Path) -> Scorer:
    scorers: dict[str, Scorer] = {"cpu": _cpu, "llama.cpp": partial(llama_scores, peer)}
    if engine not in scorers:
        raise EngineUnavailable(f"No engine is called {engine}: name {' or '.join(scorers)}.")
    return scorers[engine]


def _torch(checkpoint: Checkpoint, windows: Ints) -> Iterator[Scores]:
    from ghostdraft.models.transformer import TorchModel

    yield from score_windows(TorchModel(checkpoint, context=WINDOW), windows)


def _cpu(checkpoint: Checkpoint, windows: Ints) -> Iterator[Scores]:
    from ghostdraft.models.load import load

    yield from score_windows(load(checkpoint.name, "cpu", WINDOW).model, windows)


def score_windows(model: LanguageModel, windows: Ints) -> Iterator[Scores]:
    """Each window from an empty cache, in chunks, so that no [512, vocab] table is needed."""
    for window in windows:
        model.truncate(0)
        chunks = np.array_split(np.arange(WINDOW - 1), -(-WINDOW // min(CHUNK, model.max_rows)))
        yield join([_chunk(model, window[at], window[at + 1]) for at in chunks])


def _chunk(model: LanguageModel, token_ids: Ints, next_tokens: Ints) -> Scores:
    rows = range(len(token_ids))
    result = model.forward(token_ids, rows)
    model.keep(rows)
    return score(result.logits, next_tokens)


def _transformers(checkpoint: Checkpoint, windows: Ints) -> Iterator[Scores]:
    from ghostdraft.models.reference import HuggingFaceModel

    model = HuggingFaceModel(checkpoint)
    for window in windows:
        yield score(model.logits(window[:-1]), window[1:])


def llama_scores(peer: Path, checkpoint: Checkpoint, windows: Ints) -> Iterator[Scores]:
    """In a process of its own, which prints the path of each window's scores when they are written."""
    package = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "windows.npy", windows)
        command = [str(peer), "-m", f"{package.name}.llama_scores", str(checkpoint.weights[0]), folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            yield from (Scores.load(Path(line.strip())) for line in process.stdout or ())
        if process.returncode:
            raise EngineUnavailable(f"llama.cpp did not run in {peer}: name a Python that has it by --peer-python.")


REFERENCES: dict[str, Scorer] = {"torch": _torch, "transformers": _transformers}


def report(model: str, tokens: int, engines: str, peer: Path) -> list[dict[str, Any]]:
    """Raises ModelError."""
    named = [engine for engine in engines.split(",") if engine]
    with Bar("windows") as bar:
        return [asdict(one) for one in measure(Store().find(model), tokens, named, peer, bar)]


def rows(result: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for one in result:
        figures = (f"{one['tokens']:,}", f"{one['agreement']:.2%}", f"{one['nll_rise']:+.4f}")
        yield one["engine"], one["reference"], *figures


def show(result: Sequence[Mapping[str, Any]]) -> None:
    print_table(result[0]["model"], COLUMNS, rows(result), ())


def main(
    model: Annotated[str, typer.Option(help="A model in the store.")] = "tiny",
    tokens: Annotated[int, typer.Option(min=1, max=50_000, help="How many to score, in windows of 512.")] = 20_000,
    engines: Annotated[str, typer.Option(help="Of cpu and llama.cpp, separated by commas.")] = "cpu",
    peer_python: Annotated[Path, typer.Option(help="The Python that has llama_cpp.")] = Path(sys.executable),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Best-token agreement and rise of the negative log-likelihood against the float32 model."""
    deliver(partial(report, model, tokens, engines, peer_python), show, as_json, ModelError)


if __name__ == "__main__":
    typer.run(main)

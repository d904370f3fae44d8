"""Trains the drafts that ship: `python -m ghostdraft.benchmarks.train_drafts --corpus FOLDER --work FOLDER`.

The corpus is what `training_corpus` wrote for the model. A draft model first learns the text as it stands, then what
the target says of it; an EAGLE begins as the draft model that ships; Medusa's heads are new. All kinds share what the
target read. An interrupted run, or one whose minutes are over, goes on when it is started again with the same folders.
In the end the draft and its card are written to models/weights/MODEL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from ghostdraft.benchmarks.report import Bar, deliver, print_table
from ghostdraft.drafting.measuring import measure_once
from ghostdraft.drafting.train import export
from ghostdraft.drafting.train.beginnings import Target, new_network
from ghostdraft.drafting.train.network import DraftNetwork
from ghostdraft.drafting.train.recipes import Marks, text_loss
from ghostdraft.drafting.train.refining import Job, Material, Outcome, TooShort, Training
from ghostdraft.drafting.train.sequences import Documents
from ghostdraft.drafting.train.trainer import Plan, Trainer
from ghostdraft.drafting.train.vocabulary import usual_tokens
from ghostdraft.models.costs import GUESS
from ghostdraft.models.draft_file import ENDING, DraftKind, read_draft
from ghostdraft.models.drafts import SHIPPED
from ghostdraft.models.load import load
from ghostdraft.models.store import Store
from ghostdraft.models.types import ModelError

EACH = 100  # steps or sequences
TEXT_LENGTH = 513  # tokens of a sequence, with the last one's next
DISTILLING = 0.3  # of the learning rates, for what is trained already


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    corpus: Path
    work: Path
    model: str
    kind: DraftKind
    minutes: float
    text_steps: int
    steps: int
    lessons: int
    seed: int


def build(options: Options, output: Path) -> dict[str, Any]:
    """Trains for some minutes, and returns how good it is by now. Raises ModelError, TooShort, OSError."""
    loaded = load(options.model, device="cpu", context=1024)
    measure_once(loaded.model, loaded.costs)
    train, heldout = (documents(options.corpus, part) for part in ("train", "heldout"))
    material = Material.of(train, heldout, loaded.spec, loaded.tokenizer)
    with Bar(options.kind) as bar:
        work, costs = job(options, material, find_base(options, material, output, bar)), loaded.costs.read() or GUESS
        outcome = Training(work, loaded.model, costs, partial(show_stage, bar), lambda: False).run()
    found = summary(options, outcome)
    if outcome.steps:
        write(output, options, outcome, found)
    return found


def show_stage(bar: Bar, stage: str, done: int, total: int) -> None:
    """In the bar, and now and then as a line, for logs."""
    bar.show(done, total, stage)
    if done % EACH == 0:
        typer.echo(f"{stage}: {done:,} of {total:,}", err=True)


def documents(corpus: Path, part: str) -> dict[str, Documents]:
    """By language; `part`: "train" or "heldout"."""
    return {
        path.name.partition(".")[0]: Documents(np.load(path, mmap_mode="r"), np.load(offsets_of(path)))
        for path in sorted(corpus.glob(f"*.{part}.tokens.npy"))
    }


def offsets_of(tokens: Path) -> Path:
    return tokens.with_name(tokens.name.replace(".tokens.", ".offsets."))


def job(options: Options, material: Material, base: Path | None) -> Job:
    return Job(
        folder=options.work / options.kind,
        texts=options.work / "lessons",
        checkpoint=Store().find(options.model),
        kind=options.kind,
        material=material,
        scope="corpus",
        base=base,
        seconds=60 * options.minutes,
        seed=options.seed,
        teaching=1.0,
        lessons=options.lessons,
        steps=options.steps,
        rate=DISTILLING if base else 1.0,
    )


def find_base(options: Options, material: Material, output: Path, bar: Bar) -> Path | None:
    """The draft that learns of the target: one that read the corpus, or the draft model that ships."""
    if options.kind is DraftKind.MEDUSA:
        return None
    if options.kind is DraftKind.DRAFT_MODEL:
        return pretrained(options, material, bar)
    path = output / f"{DraftKind.DRAFT_MODEL}{ENDING}"
    if not path.exists():
        raise ModelError(f"{path} is what an EAGLE begins as. Train that first: --kind draft-model.")
    return path


def pretrained(options: Options, material: Material, bar: Bar) -> Path:
    """A draft model that knows the text of the corpus, whole or not at all."""
    path = pretrained_path(options)
    if path.exists():
        return path
    checkpoint = Store().find(options.model)
    spec = checkpoint.spec
    target = Target.of(checkpoint, usual_tokens(material.train, spec.shape.vocab, spec.stop_tokens))
    torch.manual_seed(options.seed)
    network = new_network(DraftKind.DRAFT_MODEL, target)
    assert isinstance(network, DraftNetwork)
    sampler = material.sampler(material.train, TEXT_LENGTH, options.seed)
    trainer = Trainer(network, text_loss(network, target, sampler), options.work / "pretrained.pt")
    for done in trainer.run(Plan(options.text_steps, 60 * options.minutes)):
        show_stage(bar, f"the draft reads the text, loss {done.loss:.2f}", done.step, options.text_steps)
    if trainer.step < options.text_steps:
        raise Unfinished(f"{trainer.step} of {options.text_steps} steps over the text are done. Start it again.")
    export.save(path, network, export.Target(options.model, spec.shape), target.vocabulary, {"steps": trainer.step})
    return path


def pretrained_path(options: Options) -> Path:
    return options.work / f"pretrained{ENDING}"


class Unfinished(Exception):
    """Says how far it is."""


def summary(options: Options, outcome: Outcome) -> dict[str, Any]:
    return {
        "model": options.model,
        "kind": options.kind.value,
        "seed": options.seed,
        "text_steps": text_steps(options),
        "steps": outcome.steps,
        "sequences": outcome.lessons,
        "loss": round(outcome.after.loss, 3),
        "acceptance_before": rounded(outcome.before),
        "acceptance": rounded(outcome.after),
    }


def text_steps(options: Options) -> int:
    """Of the draft model that began it."""
    reads = options.kind is DraftKind.DRAFT_MODEL
    return int(read_draft(pretrained_path(options)).card["steps"]) if reads else 0


def rounded(marks: Marks | None) -> list[float]:
    return [round(share, 3) for share in marks.acceptance] if marks else []


def write(output: Path, options: Options, outcome: Outcome, found: Mapping[str, Any]) -> None:
    """The draft, and its card beside it."""
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{options.kind}{ENDING}"
    path.write_bytes(outcome.draft.read_bytes())
    index = json.loads((options.corpus / "corpus.json").read_text(encoding="utf-8"))
    text = "\n".join(card(found, index, path.stat().st_size)) + "\n"
    path.with_suffix(".md").write_text(text, encoding="utf-8")


def card(found: Mapping[str, Any], corpus: Mapping[str, Any], size: int) -> Iterator[str]:
    """`corpus`: its corpus.json."""
    yield f"# {found['kind']} for {found['model']}"
    yield ""
    yield f"{size / 1e6:.1f} MB, trained by `benchmarks/train_drafts.py` with the seed {found['seed']}."
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    yield from (f"| {what} | {value} |" for what, value in facts(found))
    yield ""
    yield "Acceptance is the share of places in files held out where its best token is the target's, given the true"
    yield "text before; where there are several numbers, of each guess that is made upon the one before."
    yield ""
    yield "## Data"
    yield ""
    yield f"Source files of {len(corpus['packages']):,} packages, as `benchmarks/training_corpus.py` picks them, none"
    yield "of which shares text with those that drafters are measured on."
    yield ""
    yield "| language | files | tokens |"
    yield "| --- | ---: | ---: |"
    yield from (f"| {name} | {of['files']:,} | {of['tokens']:,} |" for name, of in corpus["languages"].items())
    yield ""
    yield "| licence | files | tokens |"
    yield "| --- | ---: | ---: |"
    yield from (f"| {cell(name)} | {of['files']:,} | {of['tokens']:,} |" for name, of in corpus["licences"].items())


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def facts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found["text_steps"]:
        yield "steps over the text", f"{found['text_steps']:,}"
    yield "steps over what the target says", f"{found['steps']:,}"
    yield "sequences that the target read", f"{found['sequences']:,}"
    yield "loss in files held out", f"{found['loss']} nats a token"
    if found["acceptance_before"]:
        yield "acceptance before these steps", " / ".join(map(str, found["acceptance_before"]))
    yield "acceptance", " / ".join(map(str, found["acceptance"]))


def show(found: dict[str, Any]) -> None:
    print_table(f"{found['kind']} for {found['model']}", ("", ""), facts(found), ())


def main(
    corpus: Annotated[Path, typer.Option(help="The folder that training_corpus wrote for this model.")],
    work: Annotated[Path, typer.Option(help="A folder for all that is only needed on the way; git must not see it.")],
    model: Annotated[str, typer.Option(help="A model in the store.")] = "starter",
    kind: Annotated[DraftKind, typer.Option(help="What to train.")] = DraftKind.DRAFT_MODEL,
    minutes: Annotated[float, typer.Option(help="At most so long in this run.")] = 60,
    text_steps: Annotated[int, typer.Option(help="Over the text, of a draft model.")] = 3000,
    steps: Annotated[int, typer.Option(help="Over what the target says.")] = 1500,
    lessons: Annotated[int, typer.Option(help="Sequences that the target reads.")] = 4000,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 1,
) -> None:
    """Train a draft that ships, and write it with its card."""
    options = Options(corpus, work, model, kind, minutes, text_steps, steps, lessons, seed)
    deliver(partial(build, options, SHIPPED / model), show, False, ModelError, TooShort, Unfinished)


if __name__ == "__main__":
    typer.run(main)

"""Which fill-in-the-middle order a model does best with, and what the next keystroke costs in each.

Lines of the standard library are cut somewhere, and the model is to write the rest of the line. Counted are exact
matches, and the tokens that a prompt does not share with the one a keystroke later.

    python -P -m ghostdraft.benchmarks.fim_orders --model starter --holes 60
"""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from ghostdraft.benchmarks.report import Bar, deliver, machine_line, print_table
from ghostdraft.completion.decode import Decoder
from ghostdraft.completion.prompt import Opening, Prompter, Spellings
from ghostdraft.completion.stream import TextStream
from ghostdraft.completion.types import Context
from ghostdraft.drafting.bisection import common_prefix
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models import DEFAULT
from ghostdraft.models.load import Loaded, load
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import FimTemplate, ModelError

FILES = (
    "argparse", "ast", "calendar", "configparser", "csv", "dataclasses", "difflib", "fileinput", "ftplib", "gettext",
    "glob", "heapq", "inspect", "ipaddress", "mailbox", "optparse", "pathlib", "pickle", "pprint", "queue", "sched",
    "shelve", "shlex", "smtplib", "statistics", "string", "tarfile", "textwrap", "timeit", "zipfile",
)  # fmt: skip
PREFIX_LINES, SUFFIX_LINES = 25, 10
LEAST_REST = 4  # code points
MOST_TOKENS = 32
COLUMNS = ("order", "exact", "tokens re-read at the next key")


@dataclass(frozen=True, slots=True)
class Hole:
    context: Context
    rest: str


def holes(count: int, seed: int = 0) -> list[Hole]:
    """Cuts in the bodies of the files, the same ones for the same Python."""
    rng = random.Random(seed)
    found: list[Hole] = []
    for name in (name for _ in range(count) for name in FILES):
        path = Path(sysconfig.get_path("stdlib"), name + ".py")
        if path.is_file() and len(found) < count:
            found += _cut(path.read_text(encoding="utf-8").splitlines(), rng)
    return found


def _cut(lines: Sequence[str], rng: random.Random) -> list[Hole]:
    """One hole, or none where the line drawn is a comment or too short."""
    number = rng.randrange(PREFIX_LINES, len(lines) - SUFFIX_LINES)
    line = lines[number]
    code = line.strip()
    if len(code) <= LEAST_REST or code.startswith(("#", '"', "'")):
        return []
    at = rng.randrange(len(line) - len(code), len(line) - LEAST_REST)
    prefix = "\n".join([*lines[number - PREFIX_LINES : number], line[:at]])
    suffix = "\n".join(["", *lines[number + 1 : number + 1 + SUFFIX_LINES], ""])
    return [Hole(Context(prefix, suffix), line[at:])]


@dataclass(frozen=True, slots=True)
class Result:
    order: str
    exact: int
    reread: float  # tokens of a prompt that the next keystroke changes, on average


def measured(loaded: Loaded, order: str, fim: tuple[FimTemplate, ...], cut: Sequence[Hole]) -> Result:
    prompter = Prompter(replace(loaded.spec, fim=fim), loaded.tokenizer)
    decoder = Decoder(loaded.model, NoDrafter(), Sampling.GREEDY)
    hidden = frozenset((*loaded.spec.stop_tokens, *loaded.spec.special_tokens))
    spellings = Spellings(loaded.tokenizer, loaded.model.shape.vocab, hidden)
    exact = sum(line_written(loaded, decoder, prompter, spellings, hole) == hole.rest for hole in cut)
    return Result(order, exact, sum(_reread(prompter, hole) for hole in cut) / len(cut))


def line_written(loaded: Loaded, decoder: Decoder, prompter: Prompter, spellings: Spellings, hole: Hole) -> str:
    """What the model makes of the rest of the line."""
    prompt = prompter.build(hole.context, MOST_TOKENS)
    hidden = frozenset((*loaded.spec.stop_tokens, *loaded.spec.special_tokens))
    opening = Opening(prompt.lead.encode(), spellings)
    stream, text = TextStream(loaded.tokenizer, hidden, len(prompt.lead)), ""
    for step in decoder.run(prompt.token_ids, (), MOST_TOKENS, hidden, Event(), opening=opening):
        text += stream.feed(step)
        if "\n" in text:
            break
    return text.partition("\n")[0]


def _reread(prompter: Prompter, hole: Hole) -> int:
    before = prompter.build(hole.context, MOST_TOKENS)
    after = prompter.build(replace(hole.context, prefix=hole.context.prefix + hole.rest[0]), MOST_TOKENS)
    return len(after.token_ids) - common_prefix(before.token_ids, after.token_ids)


def orders(loaded: Loaded) -> Iterator[tuple[str, tuple[FimTemplate, ...]]]:
    yield from ((template.order.value, (template,)) for template in loaded.spec.fim)
    yield "prefix alone", ()


def report(model: str, count: int, device: str, threads: int | None) -> dict[str, Any]:
    """Raises ModelError."""
    loaded, cut, found = load(model, device, threads=threads), holes(count), list[Result]()
    each = list(orders(loaded))
    with Bar("orders") as bar:
        for done, (order, fim) in enumerate(each):
            bar.show(done, len(each), order)
            found.append(measured(loaded, order, fim, cut))
    about = {"model": model, "holes": len(cut), "machine": machine_line(loaded.model)}
    return {**about, "orders": [asdict(one) for one in found]}


def show(result: Mapping[str, Any]) -> None:
    rows = [(of["order"], str(of["exact"]), f"{of['reread']:.1f}") for of in result["orders"]]
    print_table(f"{result['model']}: {result['holes']} holes", COLUMNS, rows, [result["machine"]])


def main(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = DEFAULT,
    count: Annotated[int, typer.Option("--holes", min=1, help="How many lines are cut.")] = 60,
    device: Annotated[str, typer.Option(help="What runs the model.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Of the processor.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """See which fill-in-the-middle order a model does best with."""
    deliver(partial(report, model, count, device, threads), show, as_json, ModelError)


if __name__ == "__main__":
    typer.run(main)

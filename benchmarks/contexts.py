"""What a key costs behind prompts of three lengths.

    python -m ghostdraft.benchmarks.contexts --model tiny

A real server is typed into, with contexts of 512, 2,048 and 8,000 tokens and a document that fills each, and asked by
hand behind each key: for one token, and for an answer as long as it comes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from ghostdraft.benchmarks.lsp_client import ServerEnded
from ghostdraft.benchmarks.report import Bar, deliver, machine_line, print_table
from ghostdraft.benchmarks.typist import TYPED, Key, document, serving

CONTEXTS = (512, 2048, 8000)  # tokens
ANSWERS = {"one token": 1, "a line": 96}  # most tokens of an answer
COLUMNS = ("context", "tokens of the prompt", "answer", "ms a key, p50", "p90", "in the model, p50")


def key_costs(model: str, context: int) -> dict[str, list[Key]]:
    """Of each kind of answer; without the first key, which meets the document or its line cold."""
    with serving(model, context=context) as (client, typist):
        client.wait_until_ready()
        uri, costs = typist.open(document(0, context)), dict[str, list[Key]]()
        for answer, tokens in ANSWERS.items():
            settings = {"model": model, "context": context, "max_tokens": tokens}
            client.notify("workspace/didChangeConfiguration", {"settings": settings})
            costs[answer] = [typist.key(uri, letter) for letter in "\n" + TYPED][1:]
        return costs


def report(model: str) -> dict[str, Any]:
    """Raises ServerEnded."""
    found = list[dict[str, Any]]()
    with Bar("contexts") as bar:
        for done, context in enumerate(CONTEXTS):
            bar.show(done, len(CONTEXTS), f"{context:,} tokens")
            found += [spread(context, answer, keys) for answer, keys in key_costs(model, context).items()]
    return {"model": model, "contexts": found, "machine": machine_line(None)}


def spread(context: int, answer: str, keys: Sequence[Key]) -> dict[str, Any]:
    totals = [key.total for key in keys]
    return {
        "context": context,
        "prompt": round(statistics.median(key.prompt for key in keys)),
        "answer": answer,
        "p50": statistics.median(totals),
        "p90": statistics.quantiles(totals, n=10, method="inclusive")[8],
        "model_p50": statistics.median(key.model for key in keys),
    }


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for of in result["contexts"]:
        times = (f"{of[key]:.0f}" for key in ("p50", "p90", "model_p50"))
        yield f"{of['context']:,}", f"{of['prompt']:,}", of["answer"], *times


def show(result: dict[str, Any]) -> None:
    print_table(f"{result['model']}: a key", COLUMNS, rows(result), [result["machine"]])


def main(
    model: Annotated[str, typer.Option(help="A name from `models list`.")] = "tiny",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Time keys behind prompts of three lengths."""
    deliver(partial(report, model), show, as_json, ServerEnded)


if __name__ == "__main__":
    typer.run(main)

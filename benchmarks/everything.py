"""Runs every bench for `tiny` and `starter`, one after the other, keeps the raw results and writes the page.

    python -m ghostdraft.benchmarks.everything --peer-python PATH --cursors 205

For a machine that does nothing else: it takes an hour or two. A checkout is written to: benchmarks/results and docs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ghostdraft.benchmarks import page
from ghostdraft.benchmarks.report import Bar

MODELS = ("tiny", "starter")


def commands(model: str, cursors: int, peer_python: str) -> dict[str, Sequence[str]]:
    """What is run for a model, by the name of its result; each prints JSON."""
    bench = "ghostdraft.benchmarks"
    return {
        "startup": (f"{bench}.startup", "--model", model),
        "cancel": (f"{bench}.cancel", "--model", model),
        "keystroke": (f"{bench}.keystroke", "--model", model),
        "passes": (f"{bench}.passes", "--model", model),
        "peers": (f"{bench}.peers", "--model", model),
        "contexts": (f"{bench}.contexts", "--model", model),
        "memory": (f"{bench}.memory", "--model", model, "--completions", "5000"),
        "decode": ("ghostdraft.lsp_server", "bench", "decode", "--model", model, "--cursors", str(cursors)),
        "replay": ("ghostdraft.lsp_server", "bench", "replay", "--model", model),
        "fidelity": (f"{bench}.fidelity", "--model", model, "--engines", "cpu,llama.cpp", "--peer-python", peer_python),
    }


def main(
    peer_python: Annotated[str, typer.Option(help="The Python that has llama-cpp-python.")] = sys.executable,
    cursors: Annotated[int, typer.Option(min=1, help="How many holes for `bench decode`.")] = 205,
    only: Annotated[list[str] | None, typer.Option(help="Only these benches; may be given again.")] = None,
) -> None:
    """Run every bench and write docs/performance.md."""
    wanted = [
        (f"{name}-{model}", command)
        for model in MODELS
        for name, command in commands(model, cursors, peer_python).items()
        if not only or name in only
    ]
    page.RESULTS.mkdir(exist_ok=True)
    with Bar("benches") as bar:
        for done, (name, command) in enumerate(wanted):
            bar.show(done, len(wanted), name)
            ran = subprocess.run([sys.executable, "-P", "-m", *command, "--json"], stdout=subprocess.PIPE, check=False)
            if ran.returncode != 0:
                raise typer.Exit(ran.returncode)
            (page.RESULTS / f"{name}.json").write_bytes(ran.stdout)
    page.main()


if __name__ == "__main__":
    typer.run(main)

"""The program `ghostdraft`. What editors start takes the short way: the packages of the command line import slowly."""

from __future__ import annotations

import sys

EDITORS_WAYS = (["serve"], ["serve", "--stdio"])


def main() -> None:
    if sys.argv[1:] in EDITORS_WAYS:
        from ghostdraft.lsp_server.serving import serve_stdio

        serve_stdio()
    else:
        _run_command()


def _run_command() -> None:
    import typer

    from ghostdraft.lsp_server.telling import told

    try:
        with told():  # help and errors of usage are printed outside of the commands
            from ghostdraft.lsp_server.commands import app

            app()
    except typer.Exit as ended:
        sys.exit(ended.exit_code)

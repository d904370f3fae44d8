"""`python -P -m ghostdraft.lsp_server` is the same program as `ghostdraft`."""

from __future__ import annotations

from ghostdraft.lsp_server.cli import main

if __name__ == "__main__":
    main()

"""The protocol edge: the language server, the command line, settings. The only folder that knows LSP."""

__version__ = "0.1.0"

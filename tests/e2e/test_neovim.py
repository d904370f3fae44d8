"""Ghost text in a real Neovim on a real screen, against a server that answers from a script."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.e2e.neovim import PLUGIN, Neovim, program
from tests.e2e.scripted import Script

pytestmark = pytest.mark.editors

BODY = "(self):\n        return self.width\n\n    def edge"
ANSWERS: list[dict[str, Any]] = [
    {"after": "total = su", "text": "m(values)"},
    {"after": "def area", "text": BODY},
    {"after": "print(", "text": "total, end='')", "rest": True},
    {"after": "open(", "text": "\n    path,\n)", "rest": True},
    {"after": "call(", "text": "one,\n     two"},
    {"after": "naïve = 'Привет 😀'; x = ", "text": "'é' + '😀'"},
    {"after": "if ok {", "text": "\n\t\treturn\t1\n\t}"},
    {"after": "slow = ", "text": "never seen", "delay": 30},
    {"after": "deaf = ", "text": "too late", "delay": 0.7, "deaf": True},
]
STAYS_AWAY = 0.5  # seconds after which what did not show does not come


class Start(Protocol):
    def __call__(self, text: str = "", *, name: str = "work.py", before: str = "", status: str = "ready") -> Neovim: ...


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest) -> Script:
    folder = tmp_path / "server"
    folder.mkdir()
    return Script(folder, {"answers": ANSWERS, **getattr(request, "param", {})})


@pytest.fixture
def start(tmp_path: Path, script: Script) -> Iterator[Start]:
    opened: list[Neovim] = []

    def start(text: str = "", *, name: str = "work.py", before: str = "", status: str = "ready") -> Neovim:
        server = [str(script.program), "serve", "--stdio"]
        opened.append(Neovim(tmp_path, server, name, text, before, {"model": "tiny"}))
        opened[-1].says(f"ghostdraft: {status}")
        return opened[-1]

    yield start
    for neovim in opened:
        neovim.close()


def line(neovim: Neovim) -> str:
    return neovim.evaluate("vim.api.nvim_get_current_line()")


def test_the_pure_parts() -> None:
    done = subprocess.run(
        [program(), "-u", "NONE", "--cmd", f"set rtp^={PLUGIN}", "-l", PLUGIN / "test" / "unit.lua"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_single_line_is_shown_and_tab_puts_exactly_that(start: Start, script: Script) -> None:
    neovim = start("values = [1]\n")
    neovim.type("ototal = su")
    neovim.shows("values = [1]", "total = sum(values)", "~")
    assert line(neovim) == "total = su"
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == "total = sum(values)", "the text")
    assert neovim.saved() == "values = [1]\ntotal = sum(values)\n"
    assert script.told("workspace/executeCommand")[0]["command"] == "scripted.accepted"
    assert script.told("initialize")[0]["initializationOptions"] == {"model": "tiny"}


def test_the_server_hears_where_the_cursor_rests(start: Start, script: Script) -> None:
    neovim = start("one = 1\ntwo = 2\n")
    neovim.type("jl")

    def told() -> bool:
        return {"line": 1, "character": 1} in [moved["position"] for moved in script.told("ghostdraft/didMoveCursor")]

    neovim.wait(told, "the place")


def test_several_lines_are_shown_between_those_that_are_there(start: Start) -> None:
    neovim = start("class Box:\n\nbox = Box()\n")
    neovim.type("jSdef area")
    shown = ["class Box:", *f"    def area{BODY}".split("\n"), "box = Box()", "~"]
    neovim.shows(*shown)
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == "    def edge", "the last line")
    neovim.shows(*shown)
    assert neovim.saved() == f"class Box:\n    def area{BODY}\nbox = Box()\n"
    assert neovim.evaluate("vim.fn.col('.')") == str(len("    def edge") + 1)


def test_entering_insert_mode_asks(start: Start) -> None:
    neovim = start("total = su\n")
    neovim.type("$i")
    neovim.stays("total = su", seconds=STAYS_AWAY)
    neovim.press("Escape")
    neovim.type("i")
    neovim.press("Right", "Right")
    neovim.shows("total = sum(values)")
    neovim.press("Escape")
    neovim.type("a")
    neovim.shows("total = sum(values)")


def test_undo_takes_back_what_was_accepted_and_no_more(start: Start) -> None:
    neovim = start()
    neovim.type("itotal = su")
    neovim.shows("total = sum(values)")
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == "total = sum(values)", "the text")
    neovim.press("Escape", "u")
    neovim.wait(lambda: line(neovim) == "total = su", "one undo")
    neovim.press("u")
    neovim.wait(lambda: line(neovim) == "", "two undos")


def test_typing_goes_on_behind_what_was_accepted(start: Start) -> None:
    neovim = start()
    neovim.type("itotal = su")
    neovim.shows("total = sum(values)")
    neovim.press("Tab")
    neovim.type(" + 1")
    neovim.shows("total = sum(values) + 1")
    neovim.press("BSpace", "BSpace", "BSpace", "BSpace", "BSpace")
    neovim.wait(lambda: line(neovim) == "total = sum(values", "the deletions")


def test_a_text_that_takes_in_the_bracket_behind_the_cursor_leaves_one_bracket(start: Start) -> None:
    neovim = start("print)\n")
    neovim.type("f)i(")
    neovim.shows("print(total, end='')")
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == "print(total, end='')", "the text")
    assert neovim.evaluate("vim.fn.col('.')") == str(len("print(total, end='')") + 1)


def test_a_bracket_that_moves_to_a_later_line_is_seen_there_only(start: Start) -> None:
    neovim = start("file = open)\nfile.close()\n")
    neovim.type("f)i(")
    neovim.shows("file = open(", "    path,", ")", "file.close()")
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == ")", "the last line")
    assert neovim.saved() == "file = open(\n    path,\n)\nfile.close()\n"


def test_what_stays_behind_the_cursor_is_shown_behind_the_last_line(start: Start) -> None:
    neovim = start("call); done()\n")
    neovim.type("f)i(")
    neovim.shows("call(one,", "     two); done()", "~")
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == "     two); done()", "the last line")
    assert neovim.saved() == "call(one,\n     two); done()\n"


def test_after_accents_cyrillic_and_emoji_the_text_lands_at_the_cursor(start: Start) -> None:
    neovim = start("naïve = 'Привет 😀'; x =  # 😀\n")
    neovim.type("f=;a")
    neovim.type(" ")
    neovim.shows("naïve = 'Привет 😀'; x = 'é' + '😀'  # 😀")
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == "naïve = 'Привет 😀'; x = 'é' + '😀'  # 😀", "the text")
    neovim.type("!")
    neovim.wait(lambda: "'😀'!  # 😀" in line(neovim), "the next key")


def test_tabs_are_shown_as_wide_as_they_will_be(start: Start) -> None:
    neovim = start("package main\n", name="work.go", before="vim.opt.tabstop = 4")
    neovim.evaluate("vim.cmd('set noexpandtab')")
    neovim.type("o")
    neovim.evaluate("vim.api.nvim_set_current_line('\\\\tif ok ')")
    neovim.press("End")
    neovim.type("{")
    shown = ["package main", "    if ok {", "        return  1", "    }"]
    neovim.shows(*shown)
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == "\t}", "the last line")
    neovim.shows(*shown)
    assert neovim.saved() == "package main\n\tif ok {\n\t\treturn\t1\n\t}\n"


def test_typing_what_is_suggested_keeps_it_and_anything_else_drops_it(start: Start, script: Script) -> None:
    neovim = start()
    neovim.type("itotal = su")
    neovim.shows("total = sum(values)")
    asked = len(script.told("textDocument/inlineCompletion"))
    neovim.type("m(")
    neovim.wait(lambda: line(neovim) == "total = sum(", "the typing")
    neovim.shows("total = sum(values)")
    assert len(script.told("textDocument/inlineCompletion")) == asked
    neovim.type("x")
    neovim.shows("total = sum(x")


def test_typing_on_cancels_what_the_server_still_works_at(start: Start, script: Script) -> None:
    neovim = start()
    neovim.type("islow = ")
    neovim.wait(lambda: bool(script.told("textDocument/inlineCompletion")), "the request")
    neovim.type("1")
    neovim.wait(lambda: bool(script.told("$/cancelRequest")), "the cancelling")


def test_a_burst_of_keys_asks_once(start: Start, script: Script) -> None:
    neovim = start(before="vim.g.ghostdraft = { debounce_ms = 300 }")
    neovim.type("ivalues = [1, 2, 3]; total = su")
    neovim.shows("values = [1, 2, 3]; total = sum(values)")
    assert len(script.told("textDocument/inlineCompletion")) == 1


def test_a_late_reply_is_dropped(start: Start, script: Script) -> None:
    neovim = start()
    neovim.type("ideaf = ")
    neovim.wait(lambda: bool(script.told("textDocument/inlineCompletion")), "the request")
    neovim.type("1")
    neovim.stays("deaf = 1", seconds=0.7 + STAYS_AWAY)


@pytest.mark.parametrize("key", ["Escape", "C-c"])
def test_no_ghost_text_is_left_after_insert_mode(start: Start, key: str) -> None:
    neovim = start()
    neovim.type("itotal = su")
    neovim.shows("total = sum(values)")
    neovim.press(key)
    neovim.shows("total = su")
    neovim.stays("total = su", seconds=STAYS_AWAY)


def test_an_answer_that_comes_after_insert_mode_is_not_shown(start: Start, script: Script) -> None:
    neovim = start()
    neovim.type("ideaf = ")
    neovim.wait(lambda: bool(script.told("textDocument/inlineCompletion")), "the request")
    neovim.press("Escape")
    neovim.stays("deaf =", seconds=0.7 + STAYS_AWAY)


def test_moving_the_cursor_drops_it(start: Start) -> None:
    neovim = start()
    neovim.type("itotal = su")
    neovim.shows("total = sum(values)")
    neovim.press("Left")
    neovim.shows("total = su")


def test_going_to_another_window_drops_it(start: Start) -> None:
    neovim = start()
    neovim.type("itotal = su")
    neovim.shows("total = sum(values)")
    neovim.evaluate("vim.cmd('new')")
    neovim.says("total = su\n")


def test_dismissed_it_stays_away_until_the_next_key(start: Start) -> None:
    neovim = start(before="vim.keymap.set('i', '<C-e>', '<Plug>(ghostdraft-dismiss)')")
    neovim.type("itotal = su")
    neovim.shows("total = sum(values)")
    neovim.press("C-e")
    neovim.stays("total = su", seconds=STAYS_AWAY)


def test_asked_by_hand_the_server_knows_it(start: Start, script: Script) -> None:
    neovim = start(before="vim.keymap.set('i', '<C-g>', '<Plug>(ghostdraft-suggest)')")
    neovim.type("itotal = su")
    neovim.press("C-g")
    neovim.wait(lambda: 1 in kinds(script), "a request by hand")
    neovim.shows("total = sum(values)")


def kinds(script: Script) -> list[int]:
    return [params["context"]["triggerKind"] for params in script.told("textDocument/inlineCompletion")]


def test_tab_indents_where_nothing_is_shown(start: Start) -> None:
    neovim = start()
    neovim.type("i")
    neovim.press("Tab")
    neovim.type("x")
    neovim.shows("    x")


@pytest.mark.parametrize(
    "mapping",
    [
        "vim.keymap.set('i', '<Tab>', 'own')",
        "vim.keymap.set('i', '<Tab>', function() vim.api.nvim_put({'own'}, 'c', true, true) end)",
        "vim.keymap.set('i', '<Tab>', function() return 'own' end, { expr = true })",
        "vim.cmd([[inoremap <expr> <Tab> 'o' .. 'wn']])",
        "vim.cmd([[inoremap <Plug>(own) own]]) vim.cmd([[imap <Tab> <Plug>(own)]])",
    ],
)
def test_tab_does_what_the_user_mapped_it_to_where_nothing_is_shown(start: Start, mapping: str) -> None:
    neovim = start(before=mapping)
    neovim.type("i")
    neovim.press("Tab")
    neovim.shows("own")
    neovim.type("; total = su")
    neovim.shows("own; total = sum(values)")
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == "own; total = sum(values)", "the text")


def test_switched_off_there_is_no_server_and_no_ghost_text(start: Start, script: Script) -> None:
    neovim = start()
    neovim.type(":Ghostdraft toggle")
    neovim.press("Enter")
    neovim.wait(lambda: len(script.told("shutdown")) == 1, "the server's end")
    neovim.type("itotal = su")
    neovim.stays("total = su", seconds=STAYS_AWAY)
    neovim.press("Escape")
    neovim.type(":Ghostdraft toggle")
    neovim.press("Enter")
    neovim.says("ghostdraft: ready")
    neovim.type("cctotal = su")
    neovim.shows("total = sum(values)")


def test_a_restart_brings_up_a_new_server(start: Start, script: Script) -> None:
    neovim = start()
    neovim.type(":Ghostdraft restart")
    neovim.press("Enter")
    neovim.wait(lambda: len(script.told("initialize")) == 2, "the new server")
    neovim.says("ghostdraft: ready")
    neovim.type("itotal = su")
    neovim.shows("total = sum(values)")


@pytest.mark.parametrize("script", [{"loading": 1.0}], indirect=True)
def test_the_status_line_goes_from_loading_to_ready(start: Start) -> None:
    start(status="loading").says("ghostdraft: ready")


@pytest.mark.parametrize("script", [{"error": "There is no model: ghostdraft models pull starter"}], indirect=True)
def test_trouble_is_told_with_the_servers_words(start: Start) -> None:
    neovim = start(status="in trouble")
    neovim.type(":Ghostdraft status")
    neovim.press("Enter")
    neovim.says("There is no model: ghostdraft models pull starter")


def test_the_health_check_finds_all_well(start: Start) -> None:
    neovim = start()
    neovim.type(":checkhealth ghostdraft")
    neovim.press("Enter")
    neovim.says("Ghostdraft is ready (scripted)")
    report = "\n".join(neovim.screen())
    assert report.count("OK") == 4, report


def test_two_projects_share_one_server(start: Start, script: Script, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name / ".git").mkdir(parents=True)
    neovim = start(name="first/a.py")
    neovim.evaluate(f"vim.cmd.edit('{tmp_path}/second/b.py')")
    neovim.wait(lambda: bool(script.told("workspace/didChangeWorkspaceFolders")), "the second folder")
    (event,) = script.told("workspace/didChangeWorkspaceFolders")
    assert [folder["name"] for folder in event["event"]["added"]] == [str(tmp_path / "second")]
    assert len(script.told("initialize")) == 1
    neovim.type("itotal = su")
    neovim.shows("total = sum(values)")


def test_where_neovim_draws_itself_it_is_asked_to(start: Start) -> None:
    native = """
    vim.lsp.inline_completion = {
      enable = function(on, filter) vim.g.enabled = on and filter.client_id end,
      get = function() vim.api.nvim_set_current_line('taken') return true end,
    }
    """
    neovim = start(before=native)
    assert neovim.evaluate("vim.g.enabled") == "1"
    neovim.type("itotal = su")
    neovim.stays("total = su", seconds=STAYS_AWAY)
    neovim.press("Tab")
    neovim.wait(lambda: line(neovim) == "taken", "Neovim's own text")

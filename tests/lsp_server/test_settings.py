"""Where settings come from, which win, and what a workspace can do to them."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from ghostdraft import drafting
from ghostdraft.completion.types import Trigger
from ghostdraft.lsp_server.setting_sources import (
    LARGEST_FILE,
    config_path,
    read_user,
    read_user_file,
    read_workspace_file,
)
from ghostdraft.lsp_server.settings import MOST_RESOLVED, Options, Settings, user_settings

ELSEWHERE = Path("/elsewhere/a.py")


def settings_of(user: object, origin: str = "config.toml") -> Settings:
    read = read_user(user, origin)
    assert read.problems == ()
    return Settings(read)


def language(**budget: Any) -> dict[str, Any]:
    return {"languages": {"python": budget}}


def write_workspace(root: Path, text: str) -> None:
    (root / ".ghostdraft.toml").write_text(text)


def test_defaults() -> None:
    options = settings_of({}).options()
    assert (options.model, options.drafter, options.context) == ("starter", "ngram", 2048)
    assert options.budgets.of("python") == options.budgets.default
    assert options.budgets.default.trigger is Trigger.AUTO
    assert {setting.origin for setting in options.settings.values()} == {"default"}
    assert not options.off


def test_later_places_win_and_each_value_knows_its_origin() -> None:
    read = read_user({"model": "a", "drafter": "none", "max_tokens": 10, **language(budget_ms=100)}, "config.toml")
    settings = Settings(read, {"model": "c"})
    assert settings.set_client({"model": "b", "max_tokens": 20, **language(max_tokens=30)}) == ()
    options = settings.options()
    assert (options.model, options.drafter) == ("c", "none")
    assert options.budgets.default.max_tokens == 20
    assert (options.budgets.of("python").budget_ms, options.budgets.of("python").max_tokens) == (100, 30)
    origins = {key: setting.origin for key, setting in options.settings.items()}
    assert origins["model"] == "command line"
    assert origins["drafter"] == origins["languages.python.budget_ms"] == "config.toml"
    assert origins["languages.default.max_tokens"] == origins["languages.python.max_tokens"] == "client"
    assert origins["exclude"] == "default"
    settings.set_client(None)
    assert settings.options().budgets.default.max_tokens == 10


def test_the_user_s_words_for_a_folder_win_there_and_inner_folders_over_outer_ones() -> None:
    settings = settings_of(
        {
            "folders": {"/srv/inner": {"max_tokens": 2}, "/srv": {"max_tokens": 1, "exclude": ["*.js"]}},
            "max_tokens": 50,
        }
    )
    assert settings.options(Path("/srv/inner/a.py")).budgets.default.max_tokens == 2
    assert settings.options(Path("/srv/a.py")).budgets.default.max_tokens == 1
    assert settings.options(Path("/srvs/a.py")).budgets.default.max_tokens == 50
    assert settings.options(Path("/srv/a.py")).policy.excluded == ("*.js",)
    assert settings.options(None).budgets.default.max_tokens == 50


def test_a_folder_cannot_choose_the_model() -> None:
    read = read_user({"folders": {"/srv": {"model": "x"}}}, "config.toml")
    (problem,) = read.problems
    assert "`model` is ignored" in problem


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"model": 3}, "`model` must be the name of a model, not 3"),
        ({"model": ""}, "`model`"),
        (
            {"drafter": "magic"},
            '`drafter` must be one of "none", "ngram", "corpus", "draft-model", "self", "medusa", "eagle", "hybrid"',
        ),
        ({"context": 511}, "`context` must be a whole number from 512 to 32768, not 511"),
        ({"context": 32_769}, "`context`"),
        ({"max_tokens": 0}, "`max_tokens` must be a whole number from 1 to 1024, not 0"),
        ({"max_tokens": True}, "not true"),
        ({"max_tokens": 3.5}, "not 3.5"),
        ({"max_tokens": None}, "not null"),
        (
            language(budget_ms="fast"),
            '`languages.python.budget_ms` must be a whole number from 1 to 600000, not "fast"',
        ),
        (language(trigger="sometimes"), '"auto", "invoked", "off"'),
        ({"languages": {"python": 3}}, "`languages.python` must be a table, not 3"),
        ({"languages": []}, "`languages` must be a table, not a list"),
        ({"languages": {"": {"trigger": "off"}}}, "without a language's name"),
        ({"exclude": "*.py"}, "`exclude` must be a list"),
        ({"exclude": ["[z-a]"]}, "`exclude`"),
        ({"exclude": ["*a*a*a*a*a*a*a*a"]}, "not a list with a glob of 8 stars"),
        ({"exclude": ["*.a", 3]}, "not a list with 3"),
        ({"exclude": ["*.a"] * 201}, "not a list of 201"),
        ({"folders": 3}, "`folders` must be a table"),
        ({"folders": {"/a": 3}}, "must be a table"),
        ({"workspace": 3}, "must be a table"),
        ({"no_such": 1}, "there is no setting `no_such`"),
        ("text", 'the settings must be a table, not "text"'),
    ],
)
def test_a_bad_value_becomes_a_sentence_and_the_default_stays(raw: object, said: str) -> None:
    read = read_user(raw, "config.toml")
    (problem,) = read.problems
    assert problem.startswith("config.toml")
    assert said in problem
    assert Settings(read).options() == Settings(read_user({}, "config.toml")).options()


def test_the_good_values_beside_a_bad_one_are_taken() -> None:
    options = Settings(read_user({"model": "tiny", "drafter": 3}, "config.toml")).options()
    assert (options.model, options.drafter) == ("tiny", "ngram")


def test_a_workspace_tightens(tmp_path: Path) -> None:
    write_workspace(
        tmp_path,
        'exclude = ["*.gen.py"]\nmax_tokens = 30\n'
        '[languages.python]\nbudget_ms = 100\ntrigger = "invoked"\n[languages.sql]\ntrigger = "off"\n',
    )
    settings = settings_of({"exclude": ["*.js"], **language(max_tokens=60)})
    assert settings.add_folder(tmp_path) == ()
    options = settings.options(tmp_path / "a.py")
    python = options.budgets.of("python")
    assert (python.budget_ms, python.max_tokens, python.trigger) == (100, 30, Trigger.INVOKED)
    assert options.budgets.of("go").max_tokens == 30
    assert options.budgets.of("sql").trigger is Trigger.OFF
    assert options.policy.excluded == ("*.js", "*.gen.py")
    assert options.settings["languages.python.budget_ms"].origin == str(tmp_path / ".ghostdraft.toml")
    assert settings.options(ELSEWHERE) == settings_of({"exclude": ["*.js"], **language(max_tokens=60)}).options()
    settings.remove_folder(tmp_path)
    assert settings.options(tmp_path / "a.py").policy.excluded == ("*.js",)


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ('model = "evil"', "model"),
        ('drafter = "none"', "drafter"),
        ("max_tokens = 1000", "languages.default.max_tokens"),
        ("[languages.python]\nbudget_ms = 600000", "languages.python.budget_ms"),
        ("[languages.python]\nmax_tokens = 1000", "languages.python.max_tokens"),
        ('[languages.python]\ntrigger = "auto"', "languages.python.trigger"),
        ('[languages.default]\ntrigger = "auto"', "languages.default.trigger"),
        ('[folders."/"]\nmax_tokens = 1', "folders"),
        ('[workspace]\nmodel = "evil"', "workspace"),
        ('path = "/bin/sh"', "path"),
    ],
)
def test_a_workspace_loosens_nothing_and_says_so(tmp_path: Path, text: str, ignored: str) -> None:
    user = {"languages": {"python": {"trigger": "invoked"}, "default": {"trigger": "invoked"}}}
    settings = settings_of(user)
    before = settings.options(tmp_path / "a.py")
    write_workspace(tmp_path, text)
    (problem,) = settings.add_folder(tmp_path)
    assert f"`{ignored}`" in problem
    assert settings.options(tmp_path / "a.py") == before


def test_a_client_s_workspace_values_can_only_tighten() -> None:
    settings = settings_of({})
    problems = settings.set_client({"workspace": {"model": "evil", "max_tokens": 5, **language(budget_ms=599_999)}})
    assert len(problems) == 2
    options = settings.options(ELSEWHERE)
    assert options.model == "starter"
    assert options.budgets.of("python").max_tokens == 5
    assert options.settings["languages.default.max_tokens"].origin == "client, workspace"


def test_off_in_a_workspace_is_off_for_every_language(tmp_path: Path) -> None:
    write_workspace(tmp_path, '[languages.default]\ntrigger = "off"')
    settings = settings_of(language(trigger="auto"))
    settings.add_folder(tmp_path)
    assert settings.options(tmp_path / "a").off
    assert not settings.options(ELSEWHERE).off


@pytest.mark.parametrize("content", [b"model = ", b"\xff\xfe", b"x = " + b"[" * 5000, b"#" * (LARGEST_FILE + 1)])
def test_a_settings_file_that_cannot_be_read_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".ghostdraft.toml").write_bytes(content)
    (problem,) = settings_of({}).add_folder(tmp_path)
    assert problem.startswith(f"{tmp_path / '.ghostdraft.toml'} was not read: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('model = "a"\nx = secret\n', "Invalid value (at line 2, column 5)"),
        ("[secret]\n[secret]\n", "Cannot declare … twice (at line 2, column 8)"),
        ("x = {secret = 1, secret = 2}\n", "Duplicate inline table key … (at line 1"),
        ("secret = [", "Invalid value (at end of document)"),
    ],
)
def test_bad_toml_is_told_with_its_place_and_without_its_text(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / ".ghostdraft.toml").write_text(text)
    (problem,) = read_workspace_file(tmp_path).problems
    assert f"not valid TOML: {said}" in problem
    assert "secret" not in problem


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.platform
def test_a_pipe_in_place_of_a_settings_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".ghostdraft.toml")
    (problem,) = settings_of({}).add_folder(tmp_path)
    assert "plain file" in problem


def test_what_holds_for_paths_is_remembered_for_so_many_only() -> None:
    settings = settings_of({})
    for number in range(2 * MOST_RESOLVED):
        settings.options(Path(f"/srv/{number}.py"))
    gc.collect()
    assert sum(isinstance(known, Options) for known in gc.get_objects()) <= MOST_RESOLVED + 100
    assert settings.options(Path("/srv/0.py")) is settings.options(Path("/srv/0.py"))


def test_every_drafter_can_be_chosen() -> None:
    for name in drafting.DrafterName:
        assert settings_of({"drafter": name.value}).options().drafter == name


def test_the_user_s_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GHOSTDRAFT_CONFIG", str(tmp_path / "config.toml"))
    assert read_user_file().problems == ()
    (tmp_path / "config.toml").write_text('model = "tiny"\nmax_tokens = "x"\n')
    settings, problems = user_settings({"drafter": "none"})
    assert len(problems) == 1
    assert (settings.options().model, settings.options().drafter) == ("tiny", "none")
    assert settings.options().settings["model"].origin == str(tmp_path / "config.toml")
    monkeypatch.delenv("GHOSTDRAFT_CONFIG")
    assert config_path().name == "config.toml"

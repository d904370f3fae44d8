"""What the documents say, held against the code: models, settings, stop reasons, tasks, links."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from ghostdraft.completion.types import StopReason
from ghostdraft.lsp_server import __version__
from ghostdraft.lsp_server.setting_kinds import canonical, default_values
from ghostdraft.models.registry import MODELS, KnownModel

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(path for path in (ROOT / "editors").glob("*/*.md")),
]


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def tasks_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tasks", ROOT / "tasks.py")
    if spec is None or spec.loader is None:
        raise ImportError("tasks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row_of(model: KnownModel) -> str:
    """A model's line in docs/models.md."""
    fim = "yes" if model.family.fim else "no"
    drafts = ", ".join(model.drafts) or "-"
    memory = f"{model.cpu_memory / 1e9:.1f} GB"
    return f"| `{model.name}` | {model.licence} | {model.context:,} | {fim} | {memory} | {drafts} |"


def test_the_package_the_server_and_the_extension_have_one_version() -> None:
    assert tomllib.loads(read("pyproject.toml"))["project"]["version"] == __version__
    assert json.loads(read("editors/vscode/package.json"))["version"] == __version__


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_the_table_of_models_is_the_registry(model: KnownModel) -> None:
    assert row_of(model) in read("docs/models.md").splitlines()


@pytest.mark.parametrize("reason", StopReason)
def test_every_stop_reason_is_explained(reason: StopReason) -> None:
    assert re.search(rf"^\| `{reason}` \| \w", read("docs/settings.md"), re.MULTILINE)


@pytest.mark.parametrize("key", [*default_values(), "max_tokens"])
def test_every_setting_is_explained_with_its_default(key: str) -> None:
    default = default_values()[canonical(key)]
    name = key.replace("languages.default.", "languages.NAME.")
    row = re.search(rf"^\| `{re.escape(name)}` \|.*$", read("docs/settings.md"), re.MULTILINE)
    assert row is not None
    shown = "[]" if default == () else f'"{default}"' if isinstance(default, str) else str(default)
    assert re.search(rf"\| `?{re.escape(shown)}`? \|", row[0])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    inside = [link for link in links if "://" not in link]
    assert [link for link in inside if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_tasks_that_documents_name_exist(document: Path) -> None:
    named = set(re.findall(r"tasks\.py ([a-z]+)", document.read_text(encoding="utf-8")))
    assert named <= set(tasks_module().TASKS)


def test_the_example_that_is_completed_first_exists() -> None:
    path, line, column = tasks_module().EXAMPLE.split(":")
    text = read(path).splitlines()[int(line) - 1]
    assert int(column) == len(text) + 1

"""The walls of the house, read from the sources: who may import whom, sizes, names, packaging."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ghostdraft.models.cpu import library

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("models", "drafting", "completion", "lsp_server")  # each may import itself and those before it
FOLDERS = (*LAYERS, "benchmarks")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Third-party packages that only some folders or files may import, by the start of their path.
RESERVED = {
    "pygls": ("lsp_server/",),
    "lsprotocol": ("lsp_server/",),
    "websockets": ("lsp_server/",),
    "typer": ("lsp_server/", "benchmarks/"),
    "rich": ("lsp_server/", "benchmarks/"),
    "tree_sitter": ("completion/syntax.py", "benchmarks/"),
    "tokenizers": ("models/",),
    "safetensors": ("models/", "benchmarks/"),
    "gguf": ("models/",),
    "huggingface_hub": ("models/",),
    "transformers": ("models/", "benchmarks/"),
    "torch": ("models/", "drafting/train/", "benchmarks/"),
    "llama_cpp": ("benchmarks/",),
    "xllamacpp": ("benchmarks/",),
    "matplotlib": ("benchmarks/",),
}
REGISTRIES = ("hugging" + "face.co", "pypi" + ".org", "python" + "hosted.org", "npm" + "js.org")
MACHINE_PATH = re.compile(r"(?<![\w.~}])/(?:root/|work/|home/(?!me/)|Users/(?!me/))\w|[A-Z]:\\\\?Users")
GENERATED = {"node_modules", "__pycache__", "out", "build", "dist"}
HIDDEN = {".ci", ".github"}
LONGEST_FUNCTION = 49  # lines: one screen


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of every import, those inside functions and `TYPE_CHECKING` included."""
    package = ["ghostdraft", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            yield from ((node.lineno, ".".join([*module, alias.name])) for alias in node.names)


def import_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported: no function bodies, nothing under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from import_time_nodes(node)


def layer_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "ghostdraft" and len(parts) > 1 else ""


def wrong_directions(path: Path, tree: ast.AST) -> list[str]:
    folder = path.relative_to(ROOT).parts[0]
    if folder not in LAYERS:
        return []
    above = {*LAYERS[LAYERS.index(folder) + 1 :], *({"benchmarks"} if folder != "lsp_server" else ())}
    return [f"{relative(path)}:{line} imports {name}" for line, name in imports(path, tree) if layer_of(name) in above]


def trespasses(path: Path, tree: ast.AST) -> list[str]:
    where = relative(path)
    return [
        f"{where}:{line} imports {name}"
        for line, name in imports(path, tree)
        if not where.startswith(RESERVED.get(name.split(".")[0], ("",)))
    ]


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_imports_lead_from_server_to_models(path: Path) -> None:
    assert wrong_directions(path, parse(path)) == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_reserved_packages_stay_in_their_folder(path: Path) -> None:
    assert trespasses(path, parse(path)) == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_the_project_is_imported_by_its_own_name(path: Path) -> None:
    """A bare `import models` would take the folder of the workspace in which an editor started the server."""
    bare = [name for _, name in imports(path, parse(path)) if name.split(".")[0] in FOLDERS]
    assert bare == []


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("from ghostdraft.lsp_server import server", "imports ghostdraft.lsp_server.server"),
        ("def f():\n    import ghostdraft.completion.engine", "imports ghostdraft.completion.engine"),
        ("from ..completion import types", "imports ghostdraft.completion.types"),
        ("from .. import benchmarks", "imports ghostdraft.benchmarks"),
    ],
)
def test_a_wrong_direction_is_seen(source: str, finding: str) -> None:
    found = wrong_directions(ROOT / "drafting" / "example.py", ast.parse(source))
    assert len(found) == 1
    assert finding in found[0]


def test_a_trespass_is_seen() -> None:
    tree = ast.parse("import torch\nfrom pygls.lsp import server\nimport numpy")
    assert len(trespasses(ROOT / "completion" / "engine.py", tree)) == 2


def test_torch_and_transformers_are_not_imported_from_server_to_ghost_text() -> None:
    modules = ["lsp_server.server", "lsp_server.cli", "completion.engine", "models.load", "models.cpu.model"]
    code = "\n".join(
        [
            "import sys",
            *(f"import ghostdraft.{module}" for module in modules),
            "print(sorted({'torch', 'transformers'} & set(sys.modules)))",
        ]
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_serving_begins_without_tensors_and_tokens() -> None:
    code = "\n".join(
        [
            "import sys",
            "import ghostdraft.lsp_server.commands, ghostdraft.lsp_server.serving",
            "layers = ('ghostdraft.drafting.', 'ghostdraft.models.')",
            "print([name for name in sys.modules if name == 'numpy' or name.startswith(layers)])",
        ]
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_torch_is_imported_at_the_top_of_few_modules_only() -> None:
    def heavy(path: Path) -> bool:
        nodes = ast.Module([node for node in import_time_nodes(parse(path)) if isinstance(node, ast.stmt)], [])
        flat = (name.split(".")[0] for node in nodes.body for _, name in imports(path, node))
        return bool({"torch", "transformers"} & set(flat))

    at_the_top = {relative(path) for path in SOURCES if not relative(path).startswith("benchmarks/") and heavy(path)}
    assert at_the_top <= {
        "models/transformer.py",
        "models/tensors.py",
        "models/reference.py",
        "models/graphs.py",
        "models/fallback.py",
        "models/int4.py",
        "drafting/train/beginnings.py",
        "drafting/train/export.py",
        "drafting/train/losses.py",
        "drafting/train/network.py",
        "drafting/train/recipes.py",
        "drafting/train/refining.py",
        "drafting/train/trainer.py",
    }


@pytest.mark.parametrize("path", [*SOURCES, ROOT / "tasks.py", *sorted((ROOT / "tests").rglob("*.py"))], ids=relative)
def test_functions_fit_on_one_screen(path: Path) -> None:
    functions = (node for node in ast.walk(parse(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    sizes = {function.name: (function.end_lineno or 0) - function.lineno + 1 for function in functions}
    assert {name: lines for name, lines in sizes.items() if lines > LONGEST_FUNCTION} == {}


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_modules_say_what_they_do(path: Path) -> None:
    tree = parse(path)
    assert not tree.body or ast.get_docstring(tree)


def written_files() -> Iterator[Path]:
    """The text files that people wrote, at any depth of the project's own folders."""
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if name not in GENERATED and (not name.startswith(".") or name in HIDDEN)]
        for path in (Path(folder, name) for name in names):
            if b"\0" not in path.read_bytes()[:4096]:
                yield path


def test_registries_are_named_in_one_place() -> None:
    naming = {
        relative(path)
        for path in written_files()
        if any(host in path.read_text(encoding="utf-8", errors="replace") for host in REGISTRIES)
    }
    assert naming <= {"models/pip_settings.py", "benchmarks/npm.py"}


def test_no_path_of_one_machine_is_written_down() -> None:
    found = [relative(path) for path in written_files() if MACHINE_PATH.search(path.read_text("utf-8", "replace"))]
    assert found == []


def test_every_folder_with_code_is_packaged_and_typed() -> None:
    setuptools = PYPROJECT["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in SOURCES if path.name == "__init__.py"}
    names = {"ghostdraft." + ".".join(folder.parts): folder.as_posix() for folder in folders}
    assert sorted(setuptools["packages"]) == sorted(names)
    assert setuptools["package-dir"] == names
    assert all((ROOT / folder / "py.typed").is_file() for folder in names.values())
    assert all("py.typed" in setuptools["package-data"][name] for name in names)


def test_every_import_is_declared() -> None:
    project = PYPROJECT["project"]
    requirements = sum(project["optional-dependencies"].values(), start=project["dependencies"])
    declared = {re.split(r"[<>=!;\[ ]", line)[0].replace("-", "_").removesuffix("_python") for line in requirements}
    imported = {name.split(".")[0] for path in SOURCES for _, name in imports(path, parse(path))}
    assert imported - declared - sys.stdlib_module_names == {"ghostdraft"}


def test_every_dependency_is_imported() -> None:
    needed = {re.split(r"[<>=]", line)[0].replace("-", "_") for line in PYPROJECT["project"]["dependencies"]}
    grammars = {name for name in needed if name.startswith("tree_sitter_")}  # imported by name, one per language
    imported = {name.split(".")[0] for path in SOURCES for _, name in imports(path, parse(path))}
    assert needed - grammars - imported == set()


def test_the_engine_is_built_alike_with_the_package_and_on_first_use() -> None:
    (extension,) = PYPROJECT["tool"]["setuptools"]["ext-modules"]
    assert {*extension["extra-compile-args"], "-shared", "-fPIC"} == set(library.FLAGS)
    assert extension["sources"] == [relative(source) for source in library.FOLDER.glob("*.c")]


def test_every_module_lies_in_a_package() -> None:
    assert [relative(path) for path in SOURCES if not (path.parent / "__init__.py").is_file()] == []

"""The project's tasks: one list for people, hooks and CI. Needs Python 3.11 or later, and nothing else.

    python3 tasks.py TASK [ARGUMENTS]

Each task sets up what it needs in `.venv` and may be run again at any time. This file must parse under older
versions of Python too, so that they get a sentence instead of a syntax error.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent
WINDOWS = os.name == "nt"
ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / ("Scripts" if WINDOWS else "bin")
PYTHON = BIN / ("python.exe" if WINDOWS else "python")
GHOSTDRAFT = BIN / ("ghostdraft.exe" if WINDOWS else "ghostdraft")
OLDEST = (3, 11)
COMPILERS = ("cc", "gcc", "clang")
FOLDERS = ("lsp_server", "completion", "drafting", "models", "benchmarks")
VSCODE = ROOT / "editors" / "vscode"
CI = os.environ.get("CI") == "true"
EXAMPLE = "examples/basket.py:21:13"

TASKS: dict[str, Callable[..., None]] = {}


class TaskFailed(Exception):
    """Says what failed and how to mend it; printed as it is, and the exit status is 1."""


def task(function: Callable[..., None]) -> Callable[..., None]:
    TASKS[function.__name__.strip("_")] = function
    return function


@task
def try_() -> None:
    """Install, pull the starter model, and show ghost text in an example file."""
    install()
    run(GHOSTDRAFT, "models", "pull", "starter")
    say(f"Ghost text at {EXAMPLE}")
    run(GHOSTDRAFT, "complete", EXAMPLE)
    say(f"It is {GHOSTDRAFT}. Next, your editor: docs/editors.md; or a file of yours: complete PATH:LINE:COLUMN")


@task
def test(*arguments: str) -> None:
    """Run all tests but the slow ones; ARGUMENTS go to pytest in place of that choice."""
    install("test")
    run(PYTHON, "-m", "pytest", *(arguments or ("-m", "not slow")))
    if not arguments and node_is_here():
        npm("run", "check")
        npm("test")
        if CI or list(ROOT.glob(".cache/code-server-*/finished")):
            editors()


@task
def full() -> None:
    """Run what `test` leaves out: the slow tests, fidelity to float32 among them, and the bench."""
    install("test")
    run(PYTHON, "-m", "pytest", "-m", "slow")
    bench("--cursors", "18")


@task
def editors() -> None:
    """Test the extension in a real VS Code, which is laid out in .cache first; Neovim's tests are in `test`."""
    install("test")
    extension()
    npm("run", "test:editor")


@task
def extension() -> None:
    """Build the VS Code extension: editors/vscode/ghostdraft.vsix."""
    npm("run", "package")


@task
def lint() -> None:
    """Check style and formatting."""
    install("test", "dev")
    run(PYTHON, "-m", "ruff", "check", ".")
    run(PYTHON, "-m", "ruff", "format", "--check", ".")


@task
def format_() -> None:
    """Mend what `lint` finds, where a machine can."""
    install("test", "dev")
    run(PYTHON, "-m", "ruff", "check", "--fix", ".")
    run(PYTHON, "-m", "ruff", "format", ".")


@task
def types() -> None:
    """Check types, strictly."""
    install("test", "dev")
    run(PYTHON, "-m", "mypy", "tasks.py", "conftest.py")
    run(PYTHON, "-m", "mypy", "-p", "ghostdraft", MYPYPATH=str(import_tree()))


@task
def bench(*arguments: str) -> None:
    """Measure decoding with each drafter and without; ARGUMENTS go to `ghostdraft bench decode`."""
    install()
    run(GHOSTDRAFT, "bench", "decode", *arguments)


@task
def build() -> None:
    """Build the wheel into dist/."""
    make_environment()
    pip("wheel", "--no-deps", "--wheel-dir", "dist", ".")


@task
def clean() -> None:
    """Remove the environment, caches and build outputs; pulled models stay."""
    for name in (".venv", "build", "dist", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"):
        shutil.rmtree(ROOT / name, ignore_errors=True)


def install(*extras: str) -> None:
    """Installs the package, editable, with these extras; returns at once where nothing changed since the last time."""
    make_environment()
    stamp = ENVIRONMENT / "installed.json"
    last = json.loads(stamp.read_text()) if stamp.exists() else {"fingerprint": "", "extras": []}
    wanted = sorted({*extras, *last["extras"], *([] if any(map(shutil.which, COMPILERS)) else ["compiler"])})
    now = {"fingerprint": fingerprint(), "extras": wanted}
    if last == now:
        return
    target = f".[{','.join(wanted)}]" if wanted else "."
    say(f"Installing ghostdraft{target[1:]} into .venv: a minute or more the first time")
    pip("install", "--constraint", "tests/constraints.txt", "--editable", target)
    stamp.write_text(json.dumps(now))


def fingerprint() -> str:
    """Changes with whatever puts an editable install out of date: the packaging, the pins, the C sources."""
    sources = sorted((ROOT / "models" / "cpu").glob("*.[ch]"))
    files = [ROOT / "pyproject.toml", ROOT / "tests" / "constraints.txt", *sources]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def make_environment() -> None:
    usable = f"import pip, sys; sys.exit(sys.version_info < {OLDEST})"
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", usable], capture_output=True).returncode == 0:
        return
    say("Creating the environment .venv")
    try:
        run(sys.executable, "-m", "venv", "--clear", ENVIRONMENT)
    except TaskFailed as error:
        raise TaskFailed(f"{error}\nOn Debian and Ubuntu, `apt-get install python3-venv` mends this.") from error


def node_is_here() -> bool:
    """False, with a word, where the extension's tests must be left out; CI leaves nothing out."""
    here = shutil.which("npm") is not None
    if not here and not CI:
        say("Node is not here: the tests of the VS Code extension are left out.")
    return here or CI


def npm(*words: str) -> None:
    """Runs npm on the VS Code extension, whose packages are brought up to date first."""
    program = shutil.which("npm")
    if program is None:
        raise TaskFailed("This needs Node 20 or later, which brings npm.")
    wanted, got = VSCODE / "package-lock.json", VSCODE / "node_modules" / ".package-lock.json"
    if not got.exists() or got.stat().st_mtime < wanted.stat().st_mtime:
        run(program, "ci", "--no-audit", "--no-fund", "--prefix", VSCODE)
    run(program, "--prefix", VSCODE, *words, GHOSTDRAFT_PYTHON=str(PYTHON))


def import_tree() -> Path:
    """A folder in which the project's folders lie under their import names, as a type checker wants them."""
    home = ROOT / "build" / "types"
    shutil.rmtree(home, ignore_errors=True)
    (home / "ghostdraft").mkdir(parents=True)
    for folder in FOLDERS:
        place = home / "ghostdraft" / folder
        shutil.copytree(ROOT / folder, place) if WINDOWS else place.symlink_to(ROOT / folder)
    return home


def pip(*arguments: str) -> None:
    """Runs pip in the environment with one moving line for its many, which are printed where it fails."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", *arguments]
    environment = {**os.environ, "PIP_USER": "0"}
    lines = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            show_progress(line.strip())
    show_progress("")
    if process.returncode != 0:
        raise TaskFailed("".join(lines) + "pip could not install what the task needs; its own words stand above.")


def show_progress(line: str) -> None:
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns - 3
        print(f"\r\x1b[K  {line[:columns]}", end="" if line else "\r", file=sys.stderr, flush=True)


def run(*command: str | Path, **variables: str) -> None:
    """Runs a command at the project's root; TaskFailed where it fails."""
    words = [str(word) for word in command]
    status = subprocess.run(words, cwd=ROOT, env={**os.environ, **variables}).returncode
    if status != 0:
        raise TaskFailed(f"`{' '.join(words)}` failed with status {status}.")


def say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


def newer_python() -> str:
    """What to type instead, where a newer Python is on the PATH."""
    found = [name for name in ("python3.14", "python3.13", "python3.12", "python3.11") if shutil.which(name)]
    return f"Type {found[0]} in its place." if found else "Install one, then start this task with it."


def usage() -> str:
    tasks = [f"  {name:8} {function.__doc__}" for name, function in TASKS.items()]
    return "Usage: python3 tasks.py TASK [ARGUMENTS]\n" + "\n".join(tasks)


def perform(arguments: list[str]) -> None:
    if sys.version_info < OLDEST:
        raise TaskFailed(f"ghostdraft needs Python 3.11 or later; this is {sys.version.split()[0]}. {newer_python()}")
    if not arguments or arguments[0] not in TASKS:
        raise TaskFailed(usage())
    try:
        TASKS[arguments[0]](*arguments[1:])
    except KeyboardInterrupt:
        raise TaskFailed("Stopped. What was set up so far stays; start the task again to go on.") from None


if __name__ == "__main__":
    try:
        perform(sys.argv[1:])
    except TaskFailed as failure:
        sys.exit(str(failure))

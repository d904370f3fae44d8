"""`ghostdraft doctor`: this machine, the model, each setting with its origin, what is missing and how to mend it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from ghostdraft.lsp_server import __version__
from ghostdraft.lsp_server import machine as machines
from ghostdraft.lsp_server.machine import Machine
from ghostdraft.lsp_server.setting_sources import CONFIG_VARIABLE, config_path
from ghostdraft.lsp_server.settings import Options, user_settings
from ghostdraft.lsp_server.telling import waiting
from ghostdraft.models import DEFAULT
from ghostdraft.models.costs import Costs
from ghostdraft.models.registry import MODELS
from ghostdraft.models.store import Store
from ghostdraft.models.types import ModelError

SMALLEST = "tiny"
MEASURE = "ghostdraft doctor --measure"
WIDTHS = (1, 2, 4, 8, 16)  # rows of the passes that are shown


@dataclass(frozen=True, slots=True)
class CpuEngine:
    """`variants`: the instruction sets that it can use here, best first; none where it cannot run."""

    variants: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """`size` in bytes on disk; `folder` where it lies or would lie."""

    name: str
    installed: bool
    folder: str
    size: int = 0
    licence: str = ""
    fim: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The user's config.toml: where it is or would be."""

    path: str
    exists: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """`store` is the folder of all models. `costs`: of the model's passes; None where they were not measured yet."""

    version: str
    machine: Machine
    engine: CpuEngine
    device: str
    model: Model
    costs: Costs | None
    options: Options
    config: ConfigFile
    store: str
    problems: tuple[str, ...]


def doctor(as_json: bool, measure: bool) -> bool:
    """Prints the report, once the model's passes are measured anew where that is wished. Whether nothing is missing.

    Raises ModelError, OSError where they cannot be measured.
    """
    if measure:
        _measure(user_settings()[0].options().model)
    report = examine()
    typer.echo(_json(report) if as_json else "\n".join(_lines(report)))
    return not report.problems


def examine() -> Report:
    settings, complaints = user_settings()
    here = Path.cwd()
    complaints += settings.add_folder(here)
    options = settings.options(here / "any")
    machine, engine, model, config = machines.look(), _cpu_engine(), _model(options.model), _config_file()
    device, costs = _device(), _costs(options.model)
    problems = (
        *complaints,
        *filter(None, (config.problem, engine.problem, model.problem, _slow(machine, engine, model), _idle(machine))),
    )
    store = str(Store().home / "models")
    return Report(__version__, machine, engine, device, model, costs, options, config, store, problems)


def _measure(name: str) -> None:
    from ghostdraft.drafting.measuring import measure_now
    from ghostdraft.models.load import load

    with waiting(f"measuring {name}"):
        loaded = load(name)
        measure_now(loaded.model, loaded.costs)


def _costs(name: str) -> Costs | None:
    """In the first precision in which they were measured."""
    from ghostdraft.models.cost_file import cost_file
    from ghostdraft.models.load import PRECISIONS

    try:
        checkpoint, device = Store().find(name), _device()
        known = (cost_file(checkpoint, device, precision=precision).read() for precision in PRECISIONS)
        return next(filter(None, known), None)
    except ModelError:  # which stands among the problems
        return None


def _config_file() -> ConfigFile:
    path = config_path()
    if path.exists():
        return ConfigFile(str(path), True)
    named = os.environ.get(CONFIG_VARIABLE)
    problem = f"{CONFIG_VARIABLE} names {path}, which is not there. Create it, or unset the variable." if named else ""
    return ConfigFile(str(path), False, problem)


def _cpu_engine() -> CpuEngine:
    from ghostdraft.models.cpu.model import variants

    try:
        return CpuEngine(tuple(variants()))
    except ModelError as error:
        return CpuEngine((), str(error))


def _device() -> str:
    from ghostdraft.models.load import choose_device

    return choose_device("auto")


def _model(name: str) -> Model:
    store = Store()
    folder = str(store.folder(name))
    try:
        checkpoint = store.find(name)
    except ModelError as error:
        return Model(name, False, folder, problem=str(error))
    spec = checkpoint.spec
    fim = f"{spec.fim[0].order}, from its {spec.fim_source}" if spec.fim else "none: it completes prefixes only"
    return Model(name, True, folder, checkpoint.size, spec.licence, fim)


def _slow(machine: Machine, engine: CpuEngine, model: Model) -> str:
    """The advice for a machine that is too slow for the default model."""
    if model.name != DEFAULT or (machine.gpu and machine.torch):
        return ""
    portable = engine.variants[:1] == ("portable",)
    if not machines.is_too_slow(machine, MODELS[DEFAULT].cpu_weights, portable):
        return ""
    return (
        f"This machine is slow for {DEFAULT}. Try the smallest model: ghostdraft models pull {SMALLEST}, "
        f'and model = "{SMALLEST}" in config.toml.'
    )


def _idle(machine: Machine) -> str:
    return machines.GPU_NOTE if machine.gpu and not machine.torch else ""


def _json(report: Report) -> str:
    settings = {
        key: {"value": setting.value, "origin": setting.origin} for key, setting in report.options.settings.items()
    }
    fields: dict[str, Any] = {
        "version": report.version,
        "machine": asdict(report.machine),
        "engine": asdict(report.engine),
        "device": report.device,
        "model": asdict(report.model),
        "costs": report.costs and asdict(report.costs),
        "config": {"path": report.config.path, "exists": report.config.exists},
        "store": report.store,
        "settings": settings,
        "problems": report.problems,
    }
    return json.dumps(fields, indent=2)


def _lines(report: Report) -> list[str]:
    settings = report.options.settings.items()
    return [
        *(f"{name:<13} {fact}" for name, fact in _facts(report).items()),
        "settings",
        *(f"  {key} = {_shown(setting.value)}  ({setting.origin})" for key, setting in settings),
        "to mend" if report.problems else "nothing is missing",
        *(f"  - {problem}" for problem in report.problems),
    ]


def _facts(report: Report) -> dict[str, str]:
    machine = report.machine
    return {
        "ghostdraft": f"{report.version}, Python {machine.python}",
        "machine": f"{machine.system}, {machine.cores} cores, {machine.memory / 1e9:.0f} GB",
        "processor": f"{machine.processor}; one thread reads {machine.bandwidth / 1e9:.0f} GB/s",
        "instructions": ", ".join(report.engine.variants) or "no engine",
        "GPU": ("yes" if machine.gpu else "none found") + (", PyTorch is installed" if machine.torch else ""),
        "device": report.device,
        "model": _model_line(report.model),
        "passes": _costs_line(report.costs),
        "models in": report.store,
        "config.toml": report.config.path + ("" if report.config.exists else ", which is not there"),
    }


def _model_line(model: Model) -> str:
    if not model.installed:
        return f"{model.name}, not usable"
    return (
        f"{model.name}, {model.size / 1e6:,.0f} MB in {model.folder}, {model.licence}; fill-in-the-middle: {model.fim}"
    )


def _costs_line(costs: Costs | None) -> str:
    if costs is None:
        return f"not measured yet: the server does it while you rest, and at once does: {MEASURE}"
    widths = ", ".join(f"{rows}: {1000 * costs.verify_seconds(rows):.1f}" for rows in WIDTHS)
    return (
        f"ms by rows behind {costs.context} tokens {widths}; drafting {1000 * costs.draft:.2f} ms; "
        f"reads {costs.prefill_rate:,.0f} tokens/s; anew: {MEASURE}"
    )


def _shown(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)

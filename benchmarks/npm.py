"""Where the user's npm packages come from: npm's own variables and .npmrc, read without npm.

Later ones win: the user's .npmrc, npm_config_* variables; a scope's registry wins over the general one.
https://docs.npmjs.com/cli/using-npm/config
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

DEFAULT_REGISTRY = "https://registry.npmjs.org"


def artefact_url(name: str, artefact: str, environment: Mapping[str, str] = os.environ) -> str:
    """The URL of a package's tarball, such as "zod-4.0.5.tgz"; `name` may have a scope."""
    values = _file_values(environment) | _variables(environment)
    scope = name.partition("/")[0]
    registry = values.get(f"{scope}:registry") or values.get("registry") or DEFAULT_REGISTRY
    return f"{registry.rstrip('/')}/{name}/-/{artefact}"


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    prefix = "npm_config_"
    named = {name.lower(): text for name, text in environment.items() if text}
    return {name.removeprefix(prefix): text for name, text in named.items() if name.startswith(prefix)}


def _file_values(environment: Mapping[str, str]) -> dict[str, str]:
    path = Path(environment.get("NPM_CONFIG_USERCONFIG") or Path.home() / ".npmrc")
    if not path.is_file():
        return {}
    pairs = (line.partition("=") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return {key.strip(): text.strip() for key, _, text in pairs if text.strip()}

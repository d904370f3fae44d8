"""Where completion is off: secret files, excluded paths, languages, sizes, binary content. Knows nothing of models.

What is refused here never reaches a prompt, a drafter or a cache; that goes for other open buffers too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ghostdraft.completion.types import OtherBuffer, Snapshot

SECRET_FILES = (
    # environments
    ".env", ".env.*", ".env~", "*.env", "*.env~", ".envrc", ".dev.vars",
    # keys and certificates
    "*.pem", "*.key", "*.pfx", "*.p12", "*.p8", "*.ppk", "*.jks", "*.keystore", "*.kdbx", "*.gpg", "*.asc", "*.crt",
    "*.cer", "*.der", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "authorized_keys", "known_hosts",
    # credentials of tools
    "credentials", "*.credentials", ".credentials*", ".netrc", "_netrc", ".npmrc", ".yarnrc*",
    ".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials", ".dockercfg", ".dockerconfigjson",
    ".terraformrc", "terraform.rc", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", "kubeconfig",
    "kubeconfig.*", "*.kubeconfig", ".vault-token", ".vault_pass*", "service-account*.json", "service_account*.json",
    "client_secret*.json", ".secrets*", "token.json", ".s3cfg", ".boto", ".aws_credentials", "rclone.conf",
    "wp-config.php",
    *(f"{start}{name}.{kind}" for start in ("", "*-", "*_") for name in ("secret", "secrets", "credentials")
      for kind in ("json", "yaml", "yml", "toml", "ini", "cfg", "conf", "properties", "txt", "xml", "enc")),
    # the same by their folders
    "**/.ssh/**", "**/.gnupg/**", "**/.aws/**", "**/.azure/**", "**/.kube/**", "**/.docker/config.json",
    "**/.config/gcloud/**", "**/.config/gh/**",
    # of the system, and what was typed into shells
    "/etc/shadow*", "/etc/gshadow*", ".*_history",
)  # fmt: skip

MOST_CHARACTERS = 4_000_000
PROBE = 8192  # code points at the start that are searched for NUL


@dataclass(frozen=True, slots=True)
class Policy:
    """`excluded`: globs; one without a slash looks at the file's name, one with a slash at the path, from any folder
    on; `**` crosses folders, a slash at the end stands for the whole folder. `languages_off`: LSP languageIds."""

    excluded: tuple[str, ...] = ()
    languages_off: frozenset[str] = frozenset()
    most_characters: int = MOST_CHARACTERS

    def refusal(self, snapshot: Snapshot) -> str | None:
        """Why nothing is suggested in this document, in a sentence without its name or text; None: go on."""
        if reason := _path_refusal(self, snapshot.uri, snapshot.language_id):
            return reason
        if len(snapshot.text) > self.most_characters:
            return f"The file has more than {self.most_characters:,} characters."
        if "\0" in snapshot.text[:PROBE]:
            return "The file is binary."
        return None

    def readable(self, others: Iterable[OtherBuffer]) -> tuple[OtherBuffer, ...]:
        """The open buffers whose text may be used for suggestions elsewhere."""
        return tuple(other for other in others if _path_refusal(self, other.uri, other.language_id) is None)


@lru_cache(maxsize=1024)  # each key asks it of every open document
def _path_refusal(policy: Policy, uri: str, language_id: str) -> str | None:
    path = path_of(uri)
    if _matches(path, SECRET_FILES):
        return "Files of this name hold secrets; they are never read."
    if _matches(path, policy.excluded):
        return "The settings exclude this path."
    if language_id in policy.languages_off:
        return "The settings switch this language off."
    return None


def path_of(uri: str) -> PurePosixPath:
    """The path that a URI, or a plain path, names; with forward slashes."""
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path) if len(parts.scheme) > 1 else uri
    except ValueError:  # of a host that begins with a bracket
        path = uri
    return PurePosixPath(path.replace("\\", "/"))


def _matches(path: PurePosixPath, globs: tuple[str, ...]) -> bool:
    whole = _matcher(tuple(glob for glob in globs if "/" in glob))
    name = _matcher(tuple(glob for glob in globs if "/" not in glob))
    return bool(whole.fullmatch(str(path).lower()) or name.fullmatch(path.name.lower()))


@lru_cache(maxsize=16)
def _matcher(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(_expression(glob.lower()) for glob in globs) or r"(?!)")


def _expression(glob: str) -> str:
    """A regular expression for one glob. A path glob that is not anchored by `/` or `**` may begin at any folder."""
    glob = glob + "**" if glob.endswith("/") else glob
    anchored = "/" not in glob or glob.startswith(("/", "**"))
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", glob)
    return ("" if anchored else "(?:.*/)?") + "".join(map(_piece, tokens))


def _piece(token: str) -> str:
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in wildcards:
        return wildcards[token]
    if len(token) > 1:
        return "[" + token[1:-1].replace("\\", "\\\\").replace("!", "^", 1) + "]"
    return re.escape(token)

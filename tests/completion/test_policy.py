"""Where completion is off."""

from __future__ import annotations

import pytest

from ghostdraft.completion.policy import Policy, path_of
from ghostdraft.completion.types import OtherBuffer, Snapshot


def snapshot(uri: str, text: str = "x = 1\n", language_id: str = "python") -> Snapshot:
    return Snapshot(uri, 1, language_id, text, 0)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///srv/project/.env",
        "file:///srv/project/.env.local",
        "file:///srv/project/prod.env",
        "file:///srv/me/.ssh/config",
        "file:///srv/me/.ssh/id_rsa",
        "file:///srv/me/id_ed25519.pub",
        "file:///srv/me/server.pem",
        "file:///srv/me/SERVER.KEY",
        "file:///srv/me/.netrc",
        "file:///srv/me/.npmrc",
        "file:///srv/me/.pypirc",
        "file:///srv/me/.aws/credentials",
        "file:///srv/me/.kube/config",
        "file:///srv/me/kubeconfig",
        "file:///srv/me/.docker/config.json",
        "file:///srv/me/.git-credentials",
        "file:///c%3A/work/secrets.yaml",
        "file:///srv/me/infra/prod.tfvars",
        "file:///srv/me/with%20blank/%2Eenv",
        r"C:\me\.env",
        "/srv/me/.env",
        "untitled:.env",
        "vscode-notebook-cell:/srv/me/.env#W0",
        "file:///srv/project/.env~",
        "file:///etc/shadow",
        "file:///srv/me/.bash_history",
        "file:///srv/me/.s3cfg",
        "file:///srv/me/.boto",
        "file:///srv/me/.aws_credentials",
        "file:///srv/me/rclone.conf",
        "file:///srv/www/wp-config.php",
        "file:///srv/app/application-secret.yml",
        "file:///srv/app/prod_secrets.json",
    ],
)
def test_files_that_hold_secrets_are_never_read(uri: str) -> None:
    assert Policy().refusal(snapshot(uri)) is not None
    assert Policy().readable([OtherBuffer(uri, "python", "x")]) == ()


@pytest.mark.parametrize(
    "uri",
    [
        "file:///usr/lib/python3/secrets.py",
        "file:///src/credentials.py",
        "file:///src/environment.py",
        "file:///src/env.py",
        "file:///src/keys.ts",
        "file:///src/config.json",
        "untitled:Untitled-1",
    ],
)
def test_code_about_secrets_is_code(uri: str) -> None:
    assert Policy().refusal(snapshot(uri)) is None


@pytest.mark.parametrize(
    ("glob", "path", "excluded"),
    [
        ("*.md", "/a/b/README.md", True),
        ("*.md", "/a/b/README.mdx", False),
        ("generated/*.py", "/a/generated/x.py", True),
        ("generated/*.py", "/a/generated/b/x.py", False),
        ("generated/**", "/a/generated/b/x.py", True),
        ("vendor/", "/a/vendor/b/x.py", True),
        ("vendor/", "/a/myvendor/x.py", False),
        ("**/vendor/**", "/vendor/x.py", True),
        ("/a/*.py", "/a/x.py", True),
        ("/a/*.py", "/b/a/x.py", False),
        ("x?.py", "/x1.py", True),
        ("x[0-3].py", "/x2.py", True),
        ("x[!0-3].py", "/x2.py", False),
        ("x+(.py", "/x+(.py", True),
        ("[", "/a", False),
    ],
)
def test_globs(glob: str, path: str, excluded: bool) -> None:
    assert (Policy(excluded=(glob,)).refusal(snapshot(path)) is not None) == excluded


def test_languages_sizes_and_binary_content() -> None:
    assert Policy(languages_off=frozenset({"python"})).refusal(snapshot("/a.py")) is not None
    assert Policy(most_characters=5).refusal(snapshot("/a.py", "x = 12")) is not None
    assert Policy(most_characters=6).refusal(snapshot("/a.py", "x = 12")) is None
    assert Policy().refusal(snapshot("/a.py", "a\0b")) is not None
    assert Policy().refusal(snapshot("/a.py", "")) is None


def test_a_refusal_names_neither_the_file_nor_its_text() -> None:
    refusals = [
        Policy().refusal(snapshot("/canary.pem", "canary")),
        Policy(excluded=("canary*",)).refusal(snapshot("/canary.py", "canary")),
        Policy().refusal(snapshot("/canary.py", "canary\0")),
    ]
    assert all(refusal and "canary" not in refusal for refusal in refusals)


def test_paths_of_uris() -> None:
    assert str(path_of("file:///a/b%20c.py")) == "/a/b c.py"
    assert str(path_of("file:///c%3A/x.py")) == "/c:/x.py"
    assert str(path_of(r"C:\a\b.py")) == "C:/a/b.py"
    assert str(path_of("/a/b#c.py")) == "/a/b#c.py"
    assert path_of("untitled://[x").name == "[x"

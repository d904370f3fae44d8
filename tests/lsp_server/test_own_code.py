"""The user's own code: what is read, and what is held out."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import tokenizers

from ghostdraft.completion.policy import Policy
from ghostdraft.lsp_server.own_code import HELD_OUT, collect, is_held_out
from ghostdraft.models.tokenizer import BpeTokenizer
from tests.models.published import byte_level


def encoder() -> BpeTokenizer:
    inner: tokenizers.Tokenizer = byte_level()
    inner.pre_tokenizer.add_prefix_space = False
    return BpeTokenizer(inner)


def test_files_stand_one_behind_the_other_by_language(tmp_path: Path) -> None:
    names = [name for name in map("part{}.py".format, range(100)) if not is_held_out(name)][:2]
    for name in names:
        (tmp_path / name).write_text(f"# {name}\n", "utf-8")
    (tmp_path / "excluded.py").write_text("secret = 1\n", "utf-8")
    found, words = collect(tmp_path, lambda _: Policy(excluded=("excluded.py",)), encoder()), encoder()
    assert (found.train.files, found.heldout.files) == (2, 0)
    documents = found.train.documents["python"]
    spans = pairwise(documents.offsets)
    texts = [words.decode_bytes(documents.tokens[first:last].tolist()) for first, last in spans]
    assert texts == [f"# {name}\n".encode() for name in sorted(names)]
    assert found.train.tokens == len(documents.tokens)


def test_a_share_of_the_paths_is_held_out_whatever_is_in_them() -> None:
    held_out = [name for name in map("src/part{}.py".format, range(4000)) if is_held_out(name)]
    assert abs(len(held_out) / 4000 - HELD_OUT) < 0.02
    assert [name for name in held_out if is_held_out(name)] == held_out

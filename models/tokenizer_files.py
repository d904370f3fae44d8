"""Makes a checkpoint's tokenizer.json: out of a GGUF file's metadata, or out of the published tokenizer.json.

Either way the result encodes text as it stands: no Unicode normalisation, no space put before the first word, no
tokens added around it, and every control token marked special, so that text in a buffer never becomes one.
Only `tokenizer` reads the result.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers

from ghostdraft.models.gguf_header import GgufHeader
from ghostdraft.models.types import EngineUnavailable, WeightsCorrupt

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # GGUF's token types

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = _WORDS + r"|\p{N}" + _REST
_LLAMA3 = _WORDS + r"|\p{N}{1,3}" + _REST
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}")
_CONTROL = re.compile(
    r"<[|｜].*[|｜]>|<fim[-_].*>|<repo_?name>|<file_sep>|<filename>|▁?<(PRE|SUF|MID|EOT)>|\[(PREFIX|SUFFIX|MIDDLE)\]"
)


def looks_like_control(token: str) -> bool:
    """Whether a token is made to steer the model and not to be read, whatever its file says of it."""
    return _CONTROL.fullmatch(token) is not None


def from_gguf(header: GgufHeader) -> tokenizers.Tokenizer:
    """Raises EngineUnavailable for a kind of tokenizer that is not known, WeightsCorrupt where metadata is missing."""
    kind = header.metadata.get("tokenizer.ggml.model")
    try:
        if kind == "gpt2":
            return _byte_level(header.metadata)
        if kind == "llama":
            return _byte_fallback(header.metadata)
    except KeyError as error:
        raise WeightsCorrupt(f"The GGUF file has no {error}.") from error
    except EngineUnavailable:
        raise
    except Exception as error:  # the tokenizers package raises no other kind
        raise WeightsCorrupt("The GGUF file's tokenizer makes no sense.") from error
    raise EngineUnavailable(f"The GGUF file's tokenizer is of a kind that is not known ({kind}). {_MEND}")


_MEND = "Fetch the model as safetensors: its folder has a tokenizer.json."


def _byte_level(metadata: dict[str, Any]) -> tokenizers.Tokenizer:
    vocab = {token: id_ for id_, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    kind = metadata.get("tokenizer.ggml.pre", "default")
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab, merges, ignore_merges=kind == "llama-bpe"))
    tokenizer.pre_tokenizer = _splitter(kind)
    return _with_added(tokenizer, metadata)


def _splitter(kind: str) -> pre_tokenizers.PreTokenizer:
    """How the text is cut before merging, by GGUF's name for it."""
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if kind == "qwen2":
        return _by_patterns(_QWEN2)
    if kind == "llama-bpe":
        return _by_patterns(_LLAMA3)
    if kind == "deepseek-coder":
        return _by_patterns(*_DEEPSEEK_CODER)
    if kind in ("smollm", "starcoder", "refact"):
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2])
    if kind in ("default", "gpt-2"):
        return gpt2
    raise EngineUnavailable(f"The GGUF file splits text in a way that is not known ({kind}). {_MEND}")


def _by_patterns(*patterns: str) -> pre_tokenizers.PreTokenizer:
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _byte_fallback(metadata: dict[str, Any]) -> tokenizers.Tokenizer:
    tokens = metadata["tokenizer.ggml.tokens"]
    text = {
        token: score
        for token, score, kind in zip(
            tokens, metadata["tokenizer.ggml.scores"], metadata["tokenizer.ggml.token_type"], strict=True
        )
        if kind in (NORMAL, USER_DEFINED)
    }
    vocab = {token: id_ for id_, token in enumerate(tokens)}
    unknown = tokens[metadata.get("tokenizer.ggml.unknown_token_id", 0)]
    model = models.BPE(vocab, _merges_by_score(text), unk_token=unknown, fuse_unk=True, byte_fallback=True)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    return _with_added(tokenizer, metadata)


def _merges_by_score(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Sentencepiece joins the neighbours whose union scores best; so the unions' scores rank the merges."""
    ranked = [
        (-score, left, token[len(left) :])
        for token, score in scores.items()
        for left in (token[:cut] for cut in range(1, len(token)))
        if left in scores and token[len(left) :] in scores
    ]
    return [(left, right) for _, left, right in sorted(ranked, key=lambda merge: merge[0])]


def _with_added(tokenizer: tokenizers.Tokenizer, metadata: dict[str, Any]) -> tokenizers.Tokenizer:
    added = zip(metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"], strict=True)
    for token, kind in added:
        if kind in (CONTROL, UNUSED) or looks_like_control(token):
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        elif kind == USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, normalized=False)])
    return tokenizer


def from_published(path: Path) -> tokenizers.Tokenizer:
    """Raises WeightsCorrupt where the file cannot be read, EngineUnavailable where it is no BPE over bytes."""
    if not path.is_file():
        raise WeightsCorrupt(f"{path.parent} has no {path.name}.")
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        _check_kind(fields)
        return tokenizers.Tokenizer.from_str(json.dumps(_exact(fields)))
    except (EngineUnavailable, OSError):
        raise
    except Exception as error:  # the tokenizers package raises no other kind
        raise WeightsCorrupt(f"{path} is not a readable tokenizer.") from error


def _check_kind(fields: dict[str, Any]) -> None:
    over_bytes = fields["model"].get("byte_fallback") or '"ByteLevel"' in json.dumps(fields["pre_tokenizer"])
    if fields["model"].get("type", "BPE") != "BPE" or not over_bytes:
        raise EngineUnavailable("The model's tokenizer is no BPE over bytes, the only kind that is known here.")


def _exact(fields: dict[str, Any]) -> dict[str, Any]:
    for token in fields["added_tokens"]:
        token["special"] = token["special"] or looks_like_control(token["content"])
    return {
        **fields,
        **dict.fromkeys(("truncation", "padding", "post_processor", "decoder")),
        "normalizer": _only_space_marks(fields["normalizer"]),
        "pre_tokenizer": _without_prefix_space(fields["pre_tokenizer"]),
        "model": _without_control_merges(fields["model"], fields["added_tokens"]),
    }


def _only_space_marks(normalizer: dict[str, Any] | None) -> dict[str, Any] | None:
    """Of all normalisers only sentencepiece's replacement of spaces can be undone."""
    steps = [normalizer] if normalizer else []
    if normalizer and normalizer["type"] == "Sequence":
        steps = normalizer["normalizers"]
    kept = [step for step in steps if step["type"] == "Replace" and step["content"] == "▁"]
    return kept[0] if kept else None


def _without_prefix_space(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_prefix_space(one) for one in node]
    if not isinstance(node, dict):
        return node
    changes = {"add_prefix_space": False, "prepend_scheme": "never"}
    return {key: changes.get(key, _without_prefix_space(value)) for key, value in node.items()}


def _without_control_merges(model: dict[str, Any], added: list[dict[str, Any]]) -> dict[str, Any]:
    control = {token["content"] for token in added if token["special"]}
    merges = [merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"]]
    return {**model, "merges": [merge for merge in merges if "".join(merge) not in control]}

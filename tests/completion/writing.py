"""A fake model that writes given text behind the cursor, and what a buffer looks like once its answer is accepted."""

from __future__ import annotations

from collections.abc import Sequence

from ghostdraft.completion.context import DEFAULT_WINDOW, Window
from ghostdraft.completion.engine import Engine
from ghostdraft.completion.prompt import for_model, unfinished
from ghostdraft.completion.scene import Scene, look
from ghostdraft.completion.syntax import Trees
from ghostdraft.completion.types import Budget, Completion, Snapshot
from ghostdraft.drafting.none import NoDrafter
from ghostdraft.models.sampling import Sampling
from ghostdraft.models.types import FimOrder, FimTemplate, ModelSpec
from tests.fakes import ByteTokenizer, FakeLoaded, FakeModel, Never, Tokens, next_token_logits, shape

CURSOR = "¦"

SPECIAL = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|endoftext|>", "<|file_sep|>")
TOKENIZER = ByteTokenizer(SPECIAL)
END = TOKENIZER.special["<|endoftext|>"]
MIDDLE = TOKENIZER.special["<|fim_middle|>"]
VOCAB = 256 + len(SPECIAL)

SUFFIX_FIRST = FimTemplate(
    FimOrder.SUFFIX_FIRST, ("<|fim_prefix|><|fim_suffix|>", FimTemplate.SUFFIX, "<|fim_middle|>", FimTemplate.PREFIX)
)
PREFIX_FIRST = FimTemplate(
    FimOrder.PREFIX_FIRST,
    ("<|fim_prefix|>", FimTemplate.PREFIX, "<|fim_suffix|>", FimTemplate.SUFFIX, "<|fim_middle|>"),
)


def snapshot_at(marked: str, language_id: str = "python", uri: str = "file:///a") -> Snapshot:
    """The text without its `¦`, the cursor being there."""
    before, _, behind = marked.partition(CURSOR)
    return Snapshot(uri, 1, language_id, before + behind, len(before))


def scene_at(marked: str, language_id: str = "python") -> Scene:
    return look(snapshot_at(marked, language_id), Trees())


def writer_of(snapshot: Snapshot, writes: str | Sequence[int], fim: tuple[FimTemplate, ...]) -> FakeModel:
    """A model that goes on from the cursor with `writes`, then ends the text; it finds its place by looking for the
    cursor's line behind a line break or the last special token, or for the answer's beginning behind that token."""
    answer = list(writes.encode() if isinstance(writes, str) else writes)
    before = for_model(snapshot.text[: snapshot.cursor])
    line = list(before[before.rfind("\n") + 1 :].encode())

    in_middle = fim and fim[0].order is FimOrder.PREFIX_FIRST
    whole = [*unfinished(before).encode(), *answer, END] if in_middle else [*line, *answer, END]

    def next_token(tokens: Tokens) -> int:
        for written in range(min(len(whole) - 1, len(tokens)), -1, -1):
            start = len(tokens) - written
            begins = tokens[start - 1] == MIDDLE if in_middle else start == 0 or tokens[start - 1] in (10, MIDDLE)
            if begins and list(tokens[start:]) == whole[:written]:
                return whole[written]
        return END

    return FakeModel(next_token_logits(VOCAB, next_token), VOCAB, context=8192)


def spec_of(fim: tuple[FimTemplate, ...]) -> ModelSpec:
    return ModelSpec(
        "fake",
        "none",
        shape(VOCAB),
        fim,
        stop_tokens=(END,),
        special_tokens=tuple(TOKENIZER.special.values()),
        file_token="<|file_sep|>",
    )


def engine_for(
    marked: str,
    writes: str | Sequence[int],
    language_id: str = "python",
    fim: tuple[FimTemplate, ...] = (SUFFIX_FIRST,),
    window: Window = DEFAULT_WINDOW,
) -> tuple[Engine, Snapshot]:
    snapshot = snapshot_at(marked, language_id)
    model = writer_of(snapshot, writes, fim)
    return Engine(FakeLoaded(spec_of(fim), TOKENIZER, model), NoDrafter(), Sampling.GREEDY, window), snapshot


def completed(
    marked: str,
    writes: str | Sequence[int],
    language_id: str = "python",
    fim: tuple[FimTemplate, ...] = (SUFFIX_FIRST,),
    max_tokens: int = 400,
) -> Completion:
    """The answer at `¦` where the model goes on with `writes`."""
    engine, snapshot = engine_for(marked, writes, language_id, fim)
    return engine.complete(snapshot, Budget(max_tokens), Never())


def accepted(marked: str, writes: str | Sequence[int], language_id: str = "python") -> str:
    """The text once the answer is accepted, `¦` standing behind what was inserted."""
    completion = completed(marked, writes, language_id)
    text = snapshot_at(marked).text
    return text[: completion.start] + completion.text + CURSOR + text[completion.end :]

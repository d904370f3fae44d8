"""The bench of decoding: what counts, what is compared, and that a wrong drafter is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from ghostdraft.benchmarks import own_files
from ghostdraft.benchmarks.decode import REPETITIONS, Run, Trial, by_language, measure, summarise
from ghostdraft.benchmarks.holes import Cursor
from ghostdraft.drafting.making import make
from ghostdraft.drafting.types import Draft, Drafter
from ghostdraft.models.types import ModelSpec
from tests.fakes import ByteTokenizer, FakeDrafter, FakeLoaded, FakeModel, next_token_logits, shape

HEAD = "if (ready) {\n    "
TAIL = "\n}\n"
BODY = "alpha(1);\n    beta(2);\n    gamma(3);\n}\nmore(4);\n"


def writes(text: str) -> FakeLoaded:
    """A model without fill-in-the-middle that goes on with `text` behind HEAD."""
    whole = (HEAD + text).encode()

    def following(tokens: tuple[int, ...]) -> int:
        said = bytes(tokens)
        at = said.rfind(HEAD.encode().rstrip())
        written = len(said) - at
        return whole[written] if at >= 0 and written < len(whole) else ord("z")

    model = FakeModel(next_token_logits(256, following), 256)
    return FakeLoaded(ModelSpec("fake", "none", shape(256)), ByteTokenizer(), model)


def the(name: str) -> Drafter:
    return make(name, writes(""))


def cursor() -> Cursor:
    return Cursor("a.c", "c", HEAD + TAIL, len(HEAD))


def trials_of(*drafters: Drafter, tokens: int = 64) -> dict[str, list[Trial]]:
    return measure(writes(BODY), [the("none"), *drafters], [cursor()], tokens, lambda _done: None)


def test_only_what_the_stop_rules_leave_standing_counts() -> None:
    (trial,) = trials_of()["none"]
    text = bytes(trial.runs[0].token_ids).decode()
    assert text.strip().splitlines()[-1].strip() == "gamma(3);"
    assert len(trial.runs) == REPETITIONS
    assert trial.runs[0].steps == trial.tokens


def test_a_drafter_that_knows_the_answer_takes_fewer_steps_for_the_same_tokens() -> None:
    def answer(tokens: tuple[int, ...], most: int) -> Draft:
        written = len(tokens) - len(HEAD.encode())
        return Draft.line(list(BODY.encode()[written : written + min(most, 7)]) if written >= 0 else [])

    trials = trials_of(FakeDrafter(answer))
    summary = summarise(trials["fake"], trials["none"])
    assert summary.identical
    assert summary.tokens_per_step > 4
    assert summary.acceptance > 0.7
    assert summary.tokens == trials["none"][0].tokens


def test_learned_state_is_cleared_before_every_run() -> None:
    forgotten = []

    class Learning(FakeDrafter):
        def reset(self) -> None:
            forgotten.append(True)

    trials_of(Learning(lambda _tokens, _most: Draft(), name="learning"))
    assert len(forgotten) == REPETITIONS


def test_at_most_so_many_tokens_are_written() -> None:
    (trial,) = trials_of(tokens=12)["none"]
    assert 0 < trial.tokens <= 12


def run(seconds: float, tokens: str = "abcd", steps: int = 4, drafted: int = 0, accepted: int = 0) -> Run:
    return Run(tuple(tokens.encode()), steps, drafted, accepted, seconds)


def test_a_hole_counts_with_the_median_of_its_runs() -> None:
    one = [Trial("c", (run(4.0), run(9.0), run(4.0))), Trial("go", (run(2.0),) * 3)]
    drafted = [Trial("c", (run(2.0, steps=2), run(2.0, steps=2), run(50.0, steps=2))), Trial("go", (run(2.0),) * 3)]
    summary = summarise(drafted, one)
    assert summary.speedup == pytest.approx(6.0 / 4.0)
    assert summary.tokens_per_second == pytest.approx(8 / 4.0)
    assert summary.speedup_quartiles == pytest.approx((1.25, 1.5, 1.75))
    assert summary.tokens_per_step == pytest.approx(24 / 18)
    assert {name: each.speedup for name, each in by_language(drafted, one).items()} == {"c": 2.0, "go": 1.0}


def test_one_other_token_in_one_run_is_not_identical() -> None:
    one = [Trial("c", (run(1.0),) * 3)]
    assert summarise([Trial("c", (run(1.0),) * 3)], one).identical
    assert not summarise([Trial("c", (run(1.0), run(1.0), run(1.0, "abcx")))], one).identical


def test_acceptance_is_accepted_over_drafted() -> None:
    one = [Trial("c", (run(1.0),))]
    assert summarise([Trial("c", (run(1.0, drafted=8, accepted=3),))], one).acceptance == pytest.approx(3 / 8)
    assert summarise(one, one).acceptance == 0.0


def test_holes_are_found_in_the_users_own_files(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    body = "".join(f"    {name} = look({name})\n" for name in "abcdefghijkl")
    path.write_text(f"def one():\n{body}\n\ndef two():\n{body.replace('look', 'see')}", encoding="utf-8")
    found = own_files.cursors([path], 1)
    assert len(found) == 1
    assert "def two" in found[0].text
    assert own_files.digest(found) != own_files.digest(own_files.cursors([path], 2))


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.txt", b"text", "in none of the languages"),
        ("a.py", b"\xff\xfe", "not UTF-8 text"),
        ("a.py", b"x = 1\n", "None of the files"),
        ("gone.py", None, "No such file"),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(own_files.NoHoles, match=why):
        own_files.cursors([path], 4)

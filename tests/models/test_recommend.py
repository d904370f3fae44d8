"""What is proposed for machines of all sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ghostdraft.models.recommend import FREE, Hardware, Proposal, fitting_drafts, gain, recommend
from ghostdraft.models.registry import MODELS

GB = 10**9
H200 = Hardware("cuda", "H200", 140 * GB, 4.3e12)
RTX_4090 = Hardware("cuda", "4090", 23 * GB, 0.9e12)
LAPTOP_GPU = Hardware("cuda", "laptop", 7 * GB, 0.3e12)
MAC = Hardware("mps", "Apple GPU", 24 * GB, 0.2e12)
LAPTOP = Hardware("cpu", "cpu", 12 * GB, 40e9)
OLD = Hardware("cpu", "cpu", 3 * GB, 4e9)


def named(proposal: Proposal | None) -> tuple[str, str | None, str, int] | None:
    if proposal is None:
        return None
    draft = proposal.draft.name if proposal.draft else None
    return proposal.target.name, draft, proposal.precision, proposal.context


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        (H200, ("qwen2.5-coder-32b", "starter", "bfloat16", 4096)),
        (RTX_4090, ("qwen2.5-coder-14b", "starter", "int4", 4096)),
        (LAPTOP_GPU, ("starter-large", "starter", "bfloat16", 4096)),
        (replace(LAPTOP_GPU, memory=9 * GB), ("qwen2.5-coder-7b", "starter", "int4", 4096)),
        (LAPTOP, ("starter-large", None, "as published", 2048)),
        (OLD, ("tiny", None, "as published", 2048)),
        (replace(OLD, bandwidth=1e9), None),
        (replace(H200, memory=10**8), None),
    ],
)
def test_the_largest_that_is_quick_enough_is_proposed(
    hardware: Hardware, expected: tuple[str, str | None, str, int] | None
) -> None:
    assert named(recommend(hardware)) == expected


@pytest.mark.parametrize("hardware", [H200, RTX_4090, LAPTOP_GPU, MAC, LAPTOP, OLD])
def test_what_is_proposed_fits_is_free_and_quick(hardware: Hardware) -> None:
    proposal = recommend(hardware)
    assert proposal is not None
    assert proposal.memory <= hardware.memory
    assert proposal.rate >= 20
    assert proposal.context <= proposal.target.context
    assert {model.licence for model in (proposal.target, proposal.draft) if model} <= set(FREE)


def test_on_a_cpu_a_file_counts_as_large_as_it_is() -> None:
    large = MODELS["starter-large"]
    found = recommend(LAPTOP, [large])
    assert found is not None
    assert found.rate == pytest.approx(LAPTOP.bandwidth / large.file.size)
    assert large.cpu_memory < 1.7 * GB
    of_its_size = recommend(LAPTOP, [MODELS["qwen2.5-coder-1.5b"]])
    assert of_its_size is not None
    assert of_its_size.precision == "int8"
    assert of_its_size.rate < 0.75 * found.rate


def test_licences_with_conditions_are_not_proposed() -> None:
    bound = [model for model in MODELS.values() if model.licence not in FREE]
    assert {model.name for model in bound} >= {"qwen2.5-coder-3b", "codestral-22b", "starcoder2-15b"}
    assert recommend(H200, bound) is None


def test_what_no_engine_here_has_is_not_proposed() -> None:
    assert recommend(H200, [MODELS["qwen3-coder-30b"], MODELS["granite-34b-code"]]) is None
    assert recommend(LAPTOP, [MODELS["granite-3b-code"]]) is None


def test_a_model_without_fill_in_the_middle_gives_way() -> None:
    assert named(recommend(H200, [MODELS["smollm2-1.7b"], MODELS["starter"]]))[0] == "starter"


def test_vocabularies_padded_differently_within_a_family_go_together() -> None:
    drafts = {draft.name for draft in fitting_drafts(MODELS["qwen2.5-coder-7b"])}  # 152,064 tokens
    assert drafts >= {"starter", "qwen2.5-coder-0.5b"}  # 151,936


def test_a_draft_of_another_family_is_none() -> None:
    stranger = replace(MODELS["qwen2.5-coder-7b"], drafts=("tiny", "starter"))
    assert [draft.name for draft in fitting_drafts(stranger)] == ["starter"]


def test_a_short_context_gives_way_to_a_whole_one() -> None:
    some = [MODELS["granite-3b-code"], MODELS["starter"]]  # 2,048 tokens
    assert named(recommend(H200, some))[0] == "starter"
    assert named(recommend(H200, some[:1])) == ("granite-3b-code", None, "bfloat16", 2048)
    assert named(recommend(replace(H200, memory=int(2.3 * GB)), some[1:])) == ("starter", None, "bfloat16", 2048)


def test_a_draft_needs_its_own_room() -> None:
    alone = replace(H200, memory=17 * GB)
    assert named(recommend(alone, [MODELS["qwen2.5-coder-7b"]])) == ("qwen2.5-coder-7b", None, "bfloat16", 4096)
    assert named(recommend(H200, [MODELS["qwen2.5-coder-7b"]])) == ("qwen2.5-coder-7b", "starter", "bfloat16", 4096)


def test_a_gain_falls_with_the_cost_of_drafting() -> None:
    assert gain(0.0, 0.0) == pytest.approx((1 - 0.8**9) / 0.2)
    assert gain(0.1, 0.02) == pytest.approx((1 - 0.8**5) / 0.2 / (1 + 4 * 0.12), rel=0.02)
    assert gain(1.0, 0.1) < 1

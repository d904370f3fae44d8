"""transformers as a peer, on a tiny random model: its modes write the same tokens behind a prompt that was read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from ghostdraft.benchmarks.transformers_worker import Writer, faster, greedy, save

PROMPT = [at * 7 % 61 for at in range(80)] * 2


def model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    shape = LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, vocab_size=61, eos_token_id=7
    )
    return greedy(LlamaForCausalLM(shape).eval())


def test_every_mode_writes_what_the_plain_one_writes() -> None:
    target = model()
    writer = Writer(target, model(1))
    writer.read(PROMPT)
    texts = []
    for mode in ("plain", "prompt lookup", "assisted"):
        assert writer.write(mode, 12) > 0.0
        texts.append(writer.written)
    whole = target.generate(torch.tensor([PROMPT]), max_new_tokens=12)
    assert texts == [whole[0, len(PROMPT) :].tolist()] * 3


def test_the_prompt_stays_as_it_was_read() -> None:
    writer = Writer(model())
    writer.read(PROMPT)
    for _ in range(2):
        writer.write("plain", 3)
        assert writer._cache.get_seq_length() == len(PROMPT) - 1


def test_the_faster_type_of_number_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    paces = {torch.float32: 2.0, torch.bfloat16: 1.0}
    monkeypatch.setattr("ghostdraft.benchmarks.transformers_worker._seconds", lambda of: paces[of.dtype])
    assert faster(model()).dtype == torch.bfloat16
    paces[torch.bfloat16] = 3.0
    assert faster(model()).dtype == torch.float32


def test_what_is_saved_loads_as_the_same_model(tmp_path: Path) -> None:
    target = model()
    save(target, tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert all(torch.equal(one, target.state_dict()[name]) for name, one in again.state_dict().items())

"""A small decoder-only transformer of the Llama shape, to be trained as a draft and run by the engine.

Its embeddings are the target's, frozen and projected down: what the target knows of each token comes for free, and next
to nothing of it ships. Its head has rows for the draft vocabulary only. Knows nothing of text, data or files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

HEAD_DIM = 64
EPS = 1e-6
THETA = 10_000.0

Rope = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines, (T, 32) each."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a draft network, in elements; heads have 64."""

    hidden: int = 384
    layers: int = 2
    heads: int = 6
    kv_heads: int = 2
    mlp: int = 1024


class Block(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        inner, kv = sizes.heads * HEAD_DIM, sizes.kv_heads * HEAD_DIM
        self.attention_norm, self.mlp_norm = (nn.RMSNorm(sizes.hidden, EPS) for _ in range(2))
        self.qkv = nn.Linear(sizes.hidden, inner + 2 * kv, bias=False)
        self.o = nn.Linear(inner, sizes.hidden, bias=False)
        self.gate_up = nn.Linear(sizes.hidden, 2 * sizes.mlp, bias=False)
        self.down = nn.Linear(sizes.mlp, sizes.hidden, bias=False)

    def forward(self, x: torch.Tensor, rope: Rope, memory: Memory | None = None) -> torch.Tensor:
        """x: (B, T, hidden). `memory`: of earlier guesses at the same places; this one is put into it."""
        x = x + self.o(self._attention(self.qkv(self.attention_norm(x)), rope, memory))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        mixed: torch.Tensor = self.down(F.silu(gate) * up)
        return x + mixed

    def _attention(self, qkv: torch.Tensor, rope: Rope, memory: Memory | None) -> torch.Tensor:
        batch, length, _ = qkv.shape
        heads, kv = self.sizes.heads, self.sizes.kv_heads
        q, k, v = qkv.view(batch, length, -1, HEAD_DIM).transpose(1, 2).split((heads, kv, kv), dim=1)  # (B, H, T, D)
        q, k = _rotated(q, rope), _rotated(k, rope)
        if memory is None:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            k, v, seen = memory.joined(k, v)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return mixed.transpose(1, 2).reshape(batch, length, heads * HEAD_DIM)


class Memory:
    """Keys and values of guess upon guess at the same T places. The first guess, made of the target's own states, sees
    what stands before it. Guess number s at place t, made of guess s - 1 at t - 1, sees what that one saw, and itself:
    as when the draft goes on by itself from t - s on (training-time test: Y. Li et al. 2025, arXiv:2503.01840).
    """

    def __init__(self) -> None:
        self._keys: list[torch.Tensor] = []  # (B, KV, T, D) each
        self._values: list[torch.Tensor] = []

    def joined(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """All keys and values, and (T, keys) which ones each place sees."""
        self._keys.append(keys)
        self._values.append(values)
        return torch.cat(self._keys, dim=2), torch.cat(self._values, dim=2), self._seen(keys.shape[2])

    def _seen(self, length: int) -> torch.Tensor:
        at, guess = torch.arange(length), len(self._keys) - 1
        behind = at[:, None] - at[None, :]
        first = behind >= guess
        first[:guess, 0] = True  # places that no guess of this number can have; they must see something
        return torch.cat((first, *(behind == guess - number for number in range(1, guess + 1))), dim=1)


class Trunk(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))

    def forward(self, x: torch.Tensor, memories: Sequence[Memory | None] | None = None) -> torch.Tensor:
        """(B, T, hidden), before the final norm. `memories`: of each block."""
        rope = rope_table(x.shape[1], x.device)
        for block, memory in zip(self.blocks, memories or [None] * len(self.blocks), strict=True):
            x = block(x, rope, memory)
        return x


class DraftNetwork(nn.Module):
    """A draft model. `embedding` [vocab, width]: the target's, frozen."""

    embedding: torch.Tensor

    def __init__(self, sizes: Sizes, embedding: torch.Tensor, draft_vocab: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.register_buffer("embedding", embedding, persistent=False)
        self.projection = nn.Linear(embedding.shape[1], sizes.hidden, bias=False)
        self.trunk = Trunk(sizes)
        self.final_norm = nn.RMSNorm(sizes.hidden, EPS)
        self.head = nn.Linear(sizes.hidden, draft_vocab, bias=False)

    def hidden(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(B, T) -> (B, T, hidden), behind the final norm."""
        normed: torch.Tensor = self.final_norm(self.trunk(self.projected(token_ids)))
        return normed

    def projected(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(B, T) -> (B, T, hidden): embeddings."""
        embedded = F.embedding(token_ids, self.embedding).to(self.projection.weight.dtype)
        found: torch.Tensor = self.projection(embedded)
        return found


class EagleNetwork(nn.Module):
    """A draft model that sees the target's states, too: each token goes in with the state that it came of. Behind the
    text, where the target has none yet, its own states stand for them (after EAGLE: Y. Li et al. 2024,
    arXiv:2401.15077). States are those behind a final norm, the target's brought to a mean square of
    1. It may begin as a draft model that knows of no states.
    """

    def __init__(self, draft: DraftNetwork, target_hidden: int) -> None:
        super().__init__()
        self.draft = draft
        hidden = draft.sizes.hidden
        self.state, self.own = (nn.Linear(width, hidden, bias=False) for width in (target_hidden, hidden))
        for linear in (self.state, self.own):
            nn.init.zeros_(linear.weight)

    def forward(
        self, token_ids: torch.Tensor, came_of: torch.Tensor, memories: Sequence[Memory | None] | None = None
    ) -> torch.Tensor:
        """Tokens (B, T), and (B, T, hidden) what `state` or `own` made of the state behind the token before each ->
        (B, T, hidden), behind the final norm."""
        x = self.draft.projected(token_ids) + came_of
        normed: torch.Tensor = self.draft.final_norm(self.draft.trunk(x, memories))
        return normed

    def guesses(self, token_ids: torch.Tensor, states: torch.Tensor, count: int) -> list[torch.Tensor]:
        """Tokens (B, T) and the target's states (B, T, target's hidden) behind the token before each -> `count` times
        (B, T, hidden). Guess number s at a place is made of guess s - 1 at the place before it; the first s places of
        it mean nothing."""
        memories = [Memory() for _ in self.draft.trunk.blocks]
        made = [self(token_ids, self.state(F.rms_norm(states, states.shape[-1:])), memories)]
        while len(made) < count:
            made.append(self(token_ids, self.own(F.pad(made[-1][:, :-1], (0, 0, 1, 0))), memories))
        return made


class MedusaHeads(nn.Module):
    """From one state of the target, behind its final norm, states for the tokens after the next: head i's is i on. The
    target's own head then tells the tokens.
    T. Cai et al. 2024 (arXiv:2401.10774).
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inner = nn.Linear(hidden, heads * hidden)
        self.final_norm = nn.RMSNorm(hidden, EPS)
        nn.init.zeros_(self.inner.weight)
        nn.init.zeros_(self.inner.bias)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """(B, T, hidden) -> (B, T, heads, hidden)"""
        steps: torch.Tensor = self.inner(states).unflatten(-1, (self.heads, -1))
        normed: torch.Tensor = self.final_norm(states.unsqueeze(-2) + F.silu(steps))
        return normed


def rope_table(length: int, device: torch.device) -> Rope:
    """(T, 32) each (Su et al. 2021)."""
    frequencies = THETA ** (-torch.arange(0, HEAD_DIM, 2, device=device) / HEAD_DIM)
    angles = torch.outer(torch.arange(length, device=device), frequencies)
    return angles.cos(), angles.sin()


def _rotated(x: torch.Tensor, rope: Rope) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    cos, sin = (table.to(x.dtype) for table in rope)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

"""A small decoder-only transformer of the Llama shape, to be trained as a draft and run by the engine.

Its embeddings are the target's, frozen and projected down: what the target knows of each token comes for free, and next
to nothing of it ships. Its head has rows for the draft vocabulary only. Knows nothing of text, data or files.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

HEAD_DIM = 64
EPS = 1e-6
THETA = 10_000.0


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

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """x: (B, T, hidden); cos, sin: (T, 32)."""
        x = x + self.o(self._attention(self.qkv(self.attention_norm(x)), cos, sin))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        mixed: torch.Tensor = self.down(F.silu(gate) * up)
        return x + mixed

    def _attention(self, qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, _ = qkv.shape
        heads, kv = self.sizes.heads, self.sizes.kv_heads
        q, k, v = qkv.view(batch, length, -1, HEAD_DIM).transpose(1, 2).split((heads, kv, kv), dim=1)  # (B, H, T, D)
        mixed = F.scaled_dot_product_attention(
            _rotated(q, cos, sin), _rotated(k, cos, sin), v, is_causal=True, enable_gqa=True
        )
        return mixed.transpose(1, 2).reshape(batch, length, heads * HEAD_DIM)


class Trunk(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, hidden), before the final norm."""
        cos, sin = rope(x.shape[1], x.device)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x


class DraftNetwork(nn.Module):
    """A draft model. `embedding` [vocab, width]: the target's, frozen."""

    embedding: torch.Tensor

    def __init__(self, sizes: Sizes, embedding: torch.Tensor, draft_vocab: int) -> None:
        super().__init__()
        self.register_buffer("embedding", embedding, persistent=False)
        self.projection = nn.Linear(embedding.shape[1], sizes.hidden, bias=False)
        self.trunk = Trunk(sizes)
        self.final_norm = nn.RMSNorm(sizes.hidden, EPS)
        self.head = nn.Linear(sizes.hidden, draft_vocab, bias=False)

    def hidden(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(B, T) -> (B, T, hidden), behind the final norm."""
        states: torch.Tensor = self.trunk(self.projection(F.embedding(token_ids, self.embedding)))
        normed: torch.Tensor = self.final_norm(states)
        return normed


class EagleNetwork(nn.Module):
    """One layer over the target's hidden states and the token that came of each: it guesses the next state, of which
    the target's own head then tells the token. Behind the first guess its own states stand for the target's.
    Y. Li et al. 2024 (arXiv:2401.15077).
    """

    embedding: torch.Tensor

    def __init__(self, sizes: Sizes, embedding: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("embedding", embedding, persistent=False)
        self.projection = nn.Linear(embedding.shape[1], sizes.hidden, bias=False)
        self.state = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        self.trunk = Trunk(sizes)

    def forward(self, states: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
        """States (B, T, hidden) and the tokens (B, T) that followed them -> the next states."""
        guessed: torch.Tensor = self.trunk(self.state(states) + self.projection(F.embedding(token_ids, self.embedding)))
        return guessed


class MedusaHeads(nn.Module):
    """From one state of the target, behind its final norm, those of the tokens after the next: head i's is i on.
    T. Cai et al. 2024 (arXiv:2401.10774).
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden, heads * hidden)
        nn.init.zeros_(self.inner.weight)
        nn.init.zeros_(self.inner.bias)
        self.heads = heads

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """(B, T, hidden) -> (B, T, heads, hidden)"""
        steps: torch.Tensor = self.inner(states).unflatten(-1, (self.heads, -1))
        return states.unsqueeze(-2) + F.silu(steps)


def rope(length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """(T, 32) each (Su et al. 2021)."""
    frequencies = THETA ** (-torch.arange(0, HEAD_DIM, 2, device=device) / HEAD_DIM)
    angles = torch.outer(torch.arange(length, device=device), frequencies)
    return angles.cos(), angles.sin()


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

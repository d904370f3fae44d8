"""What a draft network is to learn, as a number: what the target says next, or what stands there. Knows no files.

Targets are distributions over the draft vocabulary: what the target's head makes of its own states.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from ghostdraft.drafting.train.network import DraftNetwork, EagleNetwork, MedusaHeads

GAP, GAPS = 8, 64  # places
IGNORED = -100  # tokens that are not in the draft vocabulary


class TargetHead(nn.Module):
    """The target's final norm, and its head's rows of the draft vocabulary: [hidden], [draft vocab, hidden]; frozen."""

    norm: torch.Tensor
    rows: torch.Tensor

    def __init__(self, norm: torch.Tensor, rows: torch.Tensor, eps: float) -> None:
        super().__init__()
        self.register_buffer("norm", norm)
        self.register_buffer("rows", rows)
        self.eps = eps

    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """Behind the final norm."""
        return F.rms_norm(hidden, hidden.shape[-1:], self.norm, self.eps)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return F.linear(states, self.rows)


def next_tokens(network: DraftNetwork, token_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """token_ids (B, T); labels (B, T): what follows each, as numbers of the draft vocabulary, or IGNORED."""
    states, known = network.hidden(token_ids), labels != IGNORED
    return F.cross_entropy(network.head(states[known]).float(), labels[known])


def distilled(network: DraftNetwork, head: TargetHead, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """states (B, T, hidden): the target's behind the tokens (B, T)."""
    return _divergence(network.head(network.hidden(token_ids)), head.logits(states))


def eagle(
    network: EagleNetwork, head: TargetHead, token_ids: torch.Tensor, states: torch.Tensor, guesses: int, stride: int
) -> torch.Tensor:
    """Of so many guesses one upon the other; only every `stride`th place is judged, beginning with a random one."""
    first = guesses + int(torch.randint(stride, ()))
    made = network.guesses(token_ids[:, 1:], _with_gaps(states[:, :-1]), guesses)
    wanted = head.logits(states[:, 1:][:, first::stride])
    losses = [_divergence(network.draft.head(one[:, first::stride]), wanted) for one in made]
    return torch.stack(losses).mean()


def _with_gaps(states: torch.Tensor) -> torch.Tensor:
    """(B, T, hidden), zero at GAP of each GAPS places: before the target's first pass behind a prompt nobody knows the
    states of the prompt's last few tokens."""
    places = torch.arange(states.shape[1]) + int(torch.randint(GAPS, ()))
    return states * (places % GAPS >= GAP)[:, None]


def medusa(heads: MedusaHeads, head: TargetHead, states: torch.Tensor, stride: int) -> torch.Tensor:
    """Head i is judged by the target's states i + 1 places on, at every `stride`th place."""
    first = int(torch.randint(stride, ()))
    count = states.shape[1] - heads.heads
    guessed = heads(states[:, first:count:stride])
    losses = [
        _divergence(head.logits(guessed[:, :, i]), head.logits(states[:, 1 + i :][:, first:count:stride]))
        for i in range(heads.heads)
    ]
    return torch.stack(losses).mean()


def _divergence(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Cross entropy of what `logits` say with what `wanted` say, in nats."""
    return F.cross_entropy(logits.float().flatten(0, -2), wanted.float().softmax(dim=-1).flatten(0, -2))

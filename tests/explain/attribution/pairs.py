"""The sentence pair that the tests of attribution methods share."""

import torch
from devices import DEVICE

from nmt.explain.attribution.pair import Pair, Scores
from nmt.models.base import Seq2Seq

SOURCE = (5, 6, 7, 4, 3)
TARGET = (4, 9, 8, 3)
CONTRAST = 11
RECURRENT = (
    *("rnn", "lstm", "rnn-luong", "rnn-conditional", "rnn-conditional-two-layers-gate"),
    *("rnn-multi-head", "lstm-luong-local-two-layers"),
)
TRANSFORMERS = (
    *("transformer", "transformer-learned-gelu-deep-decoder-tied", "transformer-relative-window"),
    *("transformer-relative", "transformer-rotary-post", "transformer-post-all-maps"),
)


def pair_of(targets: tuple[int, ...] = TARGET, contrast: int | None = None) -> Pair:
    """The pair; `targets` are what is predicted in place of TARGET after the same prefix."""
    sides = SOURCE, (2, *TARGET[:-1]), targets
    src_ids, tgt_in, tgt_out = (torch.tensor(ids, device=DEVICE) for ids in sides)
    return Pair(src_ids, tgt_in, tgt_out, contrast)


def log_probs(model: Seq2Seq) -> torch.Tensor:
    """log p of each piece of TARGET, by the model's own pass over ids."""
    pair = pair_of()
    src_ids = pair.src_ids[None]
    logits = model(src_ids, torch.ones_like(src_ids, dtype=torch.bool), pair.tgt_in[None]).logits
    return logits[0].log_softmax(dim=-1).gather(1, pair.tgt_out[:, None])[:, 0]


def assert_close(scores: Scores, expected: Scores, **tolerance: float) -> None:
    for part, other in zip(scores, expected, strict=True):
        torch.testing.assert_close(part, other, **tolerance)

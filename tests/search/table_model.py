"""A model that is a random table: small, quick, and with three heads of attention."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.models.base import DecoderOutput, Memory, Seq2Seq, State, StepOutput
from nmt.models.vocabulary import VocabularyLayer

VOCAB, ROWS = 7, 11


class AsTheyAre(VocabularyLayer):
    """Features that are logits."""

    def __init__(self, n_pieces: int) -> None:
        super().__init__()
        self.n_pieces = n_pieces

    def table_logits(self, features: Tensor) -> Tensor:
        return features

    def affine(self) -> tuple[Tensor, Tensor]:
        return torch.eye(ROWS), torch.zeros(ROWS)


@dataclass(frozen=True)
class TableState(State):
    """How many pieces have come, and the source."""

    step: Int[Tensor, " B"]
    src_ids: Int[Tensor, "B S"]
    keep: Bool[Tensor, "B S"]


class TableModel(Seq2Seq):
    """A random Markov table: logits by (source, step, last piece), weights by (step, last piece)
    and head, of which there are three.
    """

    def __init__(self, vocab_size: int = VOCAB, rows: int = ROWS, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        table = 2 * torch.randn(5, 41, rows, rows, generator=generator)
        table[..., vocab_size:] = -1e4
        self.register_buffer("table", table, persistent=False)
        self.output = AsTheyAre(vocab_size)
        looks = torch.randn(41, rows, 3, 101, generator=generator)
        self.register_buffer("looks", looks, persistent=False)

    @property
    def head_names(self) -> tuple[str, ...]:
        return ("left", "middle", "right")

    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        values = src_ids.unsqueeze(2).float()
        return Memory(values=values, keep=src_keep, final=values[:, :1])

    def init_state(self, memory: Memory) -> TableState:
        src_ids = memory.values.squeeze(2).long()
        return TableState(src_ids.new_zeros(len(src_ids)), src_ids, memory.keep)

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        assert isinstance(state, TableState)
        source = (state.src_ids * state.keep).sum(dim=1) % 5
        logits = self.table[source, state.step % 41, last_ids]
        weights = self.weights(last_ids, state).mean(dim=1)
        after = TableState(state.step + 1, state.src_ids, state.keep)
        return StepOutput(logits, self.output, weights, after)

    def weights(self, last_ids: Int[Tensor, " B"], state: TableState) -> Float[Tensor, "B N S"]:
        scores = self.looks[state.step % 41, last_ids, :, : state.src_ids.shape[1]]
        return scores.masked_fill(~state.keep.unsqueeze(1), -torch.inf).softmax(dim=2)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        features, looks = [], []
        for last_ids in tgt_in.unbind(dim=1):
            looks.append(self.weights(last_ids, state))
            out = self.step(last_ids, state)
            features.append(out.features)
            state = out.state
        heads = torch.stack(looks, dim=2)
        return DecoderOutput(torch.stack(features, dim=1), self.output, heads.mean(dim=1), heads)

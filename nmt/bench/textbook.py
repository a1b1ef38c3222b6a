"""The textbook's loop, with every projection inside the step: the baseline of the speed figures.

It has the weights of RNNSeq2Seq and computes the same numbers. But every step projects its
embedding, the keys, the query, the gates and the logits anew, and the loss reads the logits of all
steps, padding included. Tutorials write it so (d2l.ai, sections 10.7 and 11.4).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.models.base import DecoderOutput, Memory, Seq2Seq, State, StepOutput
from nmt.models.recurrent.rnn import RNNConfig
from nmt.models.vocabulary import Vocabulary
from nmt.ops.masks import softmax_where
from nmt.text.vocabulary import PAD_ID


@dataclass(frozen=True)
class TextbookState(State):
    """The annotations and the hidden state, which a step reads."""

    values: Float[Tensor, "B S M"]
    keep: Bool[Tensor, "B S"]
    hidden: Float[Tensor, "B H"]


class _Output(nn.Linear, Vocabulary):
    """The vocabulary layer, without rows that pad it."""

    backend = "reference"

    def __init__(self, size: int, n_pieces: int) -> None:
        super().__init__(size, n_pieces)
        self.n_pieces = n_pieces

    def table_logits(self, features: Float[Tensor, "*L R"]) -> Float[Tensor, "*L P"]:
        """See Vocabulary."""
        logits: Tensor = self(features)
        return logits

    def affine(self) -> tuple[Float[Tensor, "P R"], Float[Tensor, " P"]]:
        """See Vocabulary."""
        return self.weight, self.bias


class TextbookSeq2Seq(Seq2Seq):
    """The attentional GRU of one layer, written down step by step; its tables have no padding."""

    def __init__(self, config: RNNConfig, src_vocab: int, tgt_vocab: int) -> None:
        super().__init__()
        embedding, hidden, memory = config.embedding, config.hidden, config.memory_size
        self.src_embedding = nn.Embedding(src_vocab, embedding)
        self.tgt_embedding = nn.Embedding(tgt_vocab, embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.GRU(embedding, memory // 2, batch_first=True, bidirectional=True)
        self.first = nn.Linear(memory, hidden)
        self.W_q = nn.Linear(hidden, hidden, bias=False)
        self.W_k = nn.Linear(memory, hidden, bias=False)
        self.w_v = nn.Linear(hidden, 1, bias=False)
        self.cell = nn.GRUCell(embedding + memory, hidden)
        self.output = _Output(hidden, tgt_vocab)

    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """See Seq2Seq.encode."""
        embedded, lengths = self.dropout(self.src_embedding(src_ids)), src_keep.sum(dim=1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        outputs, last = self.encoder(packed)
        values, _ = pad_packed_sequence(outputs, batch_first=True, total_length=src_ids.shape[1])
        final = last.transpose(0, 1).flatten(1).unsqueeze(1)
        return Memory(values=self.dropout(values), keep=src_keep, final=final)

    def init_state(self, memory: Memory) -> TextbookState:
        """See Seq2Seq.init_state."""
        hidden = torch.tanh(self.first(memory.final[:, 0]))
        return TextbookState(values=memory.values, keep=memory.keep, hidden=hidden)

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        """See Seq2Seq.step."""
        assert isinstance(state, TextbookState)
        embedded = self.dropout(self.tgt_embedding(last_ids))
        keys = self.W_k(state.values)
        query = self.W_q(state.hidden).unsqueeze(1)
        scores = self.w_v(torch.tanh(query + keys)).squeeze(-1)
        weights = softmax_where(scores, state.keep)
        context = torch.bmm(weights.unsqueeze(1), state.values).squeeze(1)
        hidden = self.cell(torch.cat([embedded, context], dim=-1), state.hidden)
        after = TextbookState(values=state.values, keep=state.keep, hidden=hidden)
        return StepOutput(self.dropout(hidden), self.output, weights, after)

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        """See Seq2Seq.teacher_forced."""
        hidden, weights = [], []
        for step in self._steps(tgt_in, state):
            assert isinstance(step.state, TextbookState)
            hidden.append(step.state.hidden)
            weights.append(step.weights)
        features = self.dropout(torch.stack(hidden, dim=1))
        if not with_weights:
            return DecoderOutput(features, self.output)
        stacked = torch.stack(weights, dim=1)
        return DecoderOutput(features, self.output, stacked, stacked.unsqueeze(1))

    def logits(
        self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """The logits of every step, computed at the step."""
        state = self.init_state(self.encode(src_ids, src_keep))
        return torch.stack([step.logits for step in self._steps(tgt_in, state)], dim=1)

    def _steps(self, tgt_in: Int[Tensor, "B T"], state: State) -> Iterator[StepOutput]:
        for last_ids in tgt_in.unbind(dim=1):
            step = self.step(last_ids, state)
            yield step
            state = step.state


def textbook_of(
    plain: Seq2Seq, config: RNNConfig, src_vocab: int, tgt_vocab: int
) -> TextbookSeq2Seq:
    """The textbook's form of `plain`, an RNNSeq2Seq of `config`, with the same weights."""
    own = plain.state_dict()
    dtype = own["decoder.output.weight"].dtype  # weights in fp64 would be rounded to fp32
    model = TextbookSeq2Seq(config, src_vocab, tgt_vocab).to(dtype)
    gates = [own[f"decoder.cell.{part}_gates.weight"] for part in ("input", "context")]
    weights = {
        **{
            f"{name}.weight": own[f"decoder.attention.{name}.weight"]
            for name in ("W_q", "W_k", "w_v")
        },
        "src_embedding.weight": own["encoder.embedding.weight"][:src_vocab],
        "tgt_embedding.weight": own["decoder.embedding.weight"][:tgt_vocab],
        "first.weight": own["decoder.initial.W_s.0.weight"],
        "first.bias": own["decoder.initial.W_s.0.bias"],
        "cell.weight_ih": torch.cat(gates, dim=1),
        "cell.bias_ih": own["decoder.cell.input_gates.bias"],
        "cell.weight_hh": own["decoder.cell.hidden_gates.weight"],
        "cell.bias_hh": own["decoder.cell.hidden_gates.bias"],
        "output.weight": own["decoder.output.weight"][:tgt_vocab],
        "output.bias": own["decoder.output.bias"][:tgt_vocab],
    }
    for name in own:
        if name.startswith("encoder.rnn."):
            weights[f"encoder.{name.removeprefix('encoder.rnn.')}"] = own[name]
    model.load_state_dict(weights)
    return model


def textbook_loss(logits: Float[Tensor, "B T V"], tgt_out: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
    """The mean over the pieces, computed for all B T positions and masked afterwards."""
    losses = nn.functional.cross_entropy(logits.transpose(1, 2), tgt_out, reduction="none")
    keep = tgt_out != PAD_ID
    return (losses * keep).sum() / keep.sum()

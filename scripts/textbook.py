"""The textbook's loop, the baseline of the speed figures.

It has the weights of RNNSeq2Seq and computes the same numbers. But every step projects its
embedding, the keys, the query, the gates and the logits anew, and the loss reads the logits of all
steps, padding included. Tutorials write it so (d2l.ai, sections 10.7 and 11.4).
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.batches.batching import Batch
from nmt.models.base import Seq2Seq
from nmt.models.recurrent.rnn import RNNConfig
from nmt.ops.masks import keep_from_lengths, softmax_over_kept
from nmt.optim.losses import LossSum
from nmt.text.vocabulary import PAD_ID
from nmt.training.step import StepSettings


class Textbook(nn.Module):
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
        self.output = nn.Linear(hidden, tgt_vocab)

    def forward(
        self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of every step, computed at the step."""
        embedded, lengths = self.dropout(self.src_embedding(src_ids)), src_keep.sum(dim=1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        outputs, last = self.encoder(packed)
        values, _ = pad_packed_sequence(outputs, batch_first=True, total_length=src_ids.shape[1])
        values = self.dropout(values)
        hidden = torch.tanh(self.first(last.transpose(0, 1).flatten(1)))
        logits = []
        for last_ids in tgt_in.unbind(dim=1):
            query = self.W_q(hidden).unsqueeze(1)
            scores = self.w_v(torch.tanh(query + self.W_k(values))).squeeze(-1)
            weights = softmax_over_kept(scores, src_keep)
            context = torch.bmm(weights.unsqueeze(1), values).squeeze(1)
            inputs = torch.cat([self.dropout(self.tgt_embedding(last_ids)), context], dim=-1)
            hidden = self.cell(inputs, hidden)
            logits.append(self.output(self.dropout(hidden)))
        return torch.stack(logits, dim=1)


def textbook_of(plain: Seq2Seq, config: RNNConfig, src_vocab: int, tgt_vocab: int) -> Textbook:
    """Return the textbook's form of `plain`, an RNNSeq2Seq of `config`, with the same weights."""
    source = plain.state_dict()
    model = Textbook(config, src_vocab, tgt_vocab).to(next(plain.parameters()))
    gates = [source[f"decoder.cell.{part}_gates.weight"] for part in ("input", "context")]
    weights = {
        **{f"{name}.weight": source[f"decoder.attention.{name}.weight"]
           for name in ("W_q", "W_k", "w_v")},
        **{f"encoder.{name}": source[f"encoder.rnn.{name}"] for name in model.encoder.state_dict()},
        "src_embedding.weight": source["encoder.embedding.weight"][:src_vocab],
        "tgt_embedding.weight": source["decoder.embedding.weight"][:tgt_vocab],
        "first.weight": source["decoder.initial.W_s.0.weight"],
        "first.bias": source["decoder.initial.W_s.0.bias"],
        "cell.weight_ih": torch.cat(gates, dim=1),
        "cell.bias_ih": source["decoder.cell.input_gates.bias"],
        "cell.weight_hh": source["decoder.cell.hidden_gates.weight"],
        "cell.bias_hh": source["decoder.cell.hidden_gates.bias"],
        "output.weight": source["decoder.output.weight"][:tgt_vocab],
        "output.bias": source["decoder.output.bias"][:tgt_vocab],
    }  # fmt: skip
    model.load_state_dict(weights)
    return model


def textbook_loss(model: Textbook, batch: Batch, settings: StepSettings) -> LossSum:
    """Return the loss, computed for all B T positions and masked afterwards."""
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    logits = model(batch.src_ids, keep, batch.tgt_in)
    losses = nn.functional.cross_entropy(logits.transpose(1, 2), batch.tgt_out, reduction="none")
    loss_sum = (losses * (batch.tgt_out != PAD_ID)).sum()
    return LossSum(loss_sum, loss_sum)

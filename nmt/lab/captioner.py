"""Captioning: the translation models' recurrent decoder attends to annotations of any input.

An encoder turns the input, such as a picture (arXiv 1502.03044), into a Memory, to which the
unchanged decoder attends. docs/features.md explains how to use it with other features.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from nmt.batches.batching import pad_ids
from nmt.models.base import BatchFirst, DecoderOutput, Memory, State, StepOutput, mean_annotation
from nmt.models.catalog import initialise
from nmt.models.recurrent.decoder import RNNState, build_decoder
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import LossSum, cross_entropy
from nmt.optim.optimizers import AdamConfig
from nmt.optim.schedules import CosineConfig, Schedule
from nmt.search.beam import SearchStart, search_from
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import EOS_ID, PAD_ID
from nmt.training.step import StepSettings, train_step
from nmt.types import Hypothesis

_BETA2 = 0.98  # 0.999 averages over 1,000 updates, about the length of a short run
_WARMUP = 0.05  # share of the updates
_FINAL_LR = 0.02  # share of the peak learning rate
_CLIP_NORM = 1.0


@dataclass(frozen=True)
class Features(BatchFirst):
    """Feature vectors of S positions. `keep` is False at padding, but never in an entire row."""

    values: Float[Tensor, "B S D"]
    keep: Bool[Tensor, "B S"]

    @classmethod
    def from_sequences(cls, sequences: Sequence[Float[Tensor, "_ D"]]) -> "Features":
        """Pad sequences of different lengths into one batch."""
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        values = pad_sequence(list(sequences), batch_first=True)
        return cls(values, keep_from_lengths(lengths, values.shape[1]))


class FeatureEncoder(nn.Module):
    """An encoder of feature vectors: the annotation of a feature vector is ReLU(W feature + b).

    The mean annotation initialises the decoder (arXiv 1502.03044). `normalise` first applies layer
    normalisation (arXiv 1607.06450) to each feature vector. This suits features of unknown scale,
    such as activations of a network, but discards their norms.
    """

    def __init__(
        self, feature_size: int, size: int, dropout: float = 0.0, normalise: bool = False
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(feature_size) if normalise else nn.Identity(),
            nn.Linear(feature_size, size),
            nn.ReLU(),
            nn.Dropout(dropout),
        )

    def forward(self, features: Features) -> Memory:
        """Return the memory. Features at padding have no effect."""
        keep = features.keep
        values = self.layers(features.values).masked_fill(~keep.unsqueeze(-1), 0.0)
        return Memory(values=values, keep=keep, final=mean_annotation(values, keep))


class PictureEncoder(nn.Module):
    """An encoder of pictures, with one annotation for each cell of 8 by 8 pixels, row by row.

    It has three convolutions of stride 2 and one of stride 1, each with batch normalisation (arXiv
    1502.03167) and a ReLU. The receptive field of a cell is 38 by 38 pixels. It is centred on the
    cell, since the strided kernels are even. A learned vector per cell encodes its position.
    """

    def __init__(self, n_positions: int, size: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        in_channels = 3
        for channels, kernel, stride in [(16, 4, 2), (32, 4, 2), (64, 4, 2), (size, 3, 1)]:
            layers += [
                nn.Conv2d(in_channels, channels, kernel, stride, padding=1, bias=False),
                nn.BatchNorm2d(channels),  # this layer adds the bias
                nn.ReLU(),
            ]
            in_channels = channels
        self.layers = nn.Sequential(*layers)
        self.positions = nn.Parameter(0.1 * torch.randn(n_positions, size))

    def forward(self, pictures: Float[Tensor, "B 3 H W"]) -> Memory:
        """Return the memory; the mean annotation initialises the decoder (arXiv 1502.03044)."""
        values = self.layers(2 * pictures - 1).flatten(2).transpose(1, 2) + self.positions
        keep = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
        return Memory(values=values, keep=keep, final=values.mean(dim=1, keepdim=True))


class Captioner(nn.Module):
    """An encoder of any input, and the recurrent decoder over its annotations.

    `encoder` maps its input to a Memory of vectors of `memory_size` numbers. The input is Features
    for FeatureEncoder, and a tensor of pictures for PictureEncoder.
    """

    def __init__(
        self, encoder: nn.Module, config: RecurrentConfig, memory_size: int, vocab_size: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = build_decoder(config, memory_size, vocab_size)
        initialise(self.decoder)

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        """Advance by one word. The search calls this method."""
        assert isinstance(state, RNNState)
        return self.decoder.step(last_ids, state)

    def forward(
        self,
        inputs: Tensor | Features,
        rows: Int[Tensor, " R"],
        tgt_in: Int[Tensor, "R T"],
        with_weights: bool = False,
    ) -> DecoderOutput:
        """Run the teacher-forced pass: sentence i describes input `rows[i]`.

        An input with several sentences is encoded once.
        """
        state = self.decoder.init_state(self.encoder(inputs).select(rows))
        return self.decoder.teacher_forced(tgt_in, state, with_weights)


@dataclass(frozen=True)
class CaptionBatch:
    """Inputs, and sentences that describe them. Sentence i describes input `rows[i]`."""

    inputs: Tensor | Features
    rows: Int[Tensor, " R"]
    tgt_in: Int[Tensor, "R T"]
    tgt_out: Int[Tensor, "R T"]

    @classmethod
    def of(
        cls, inputs: Tensor | Features, rows: Sequence[int], sentences: Sequence[Sequence[int]]
    ) -> "CaptionBatch":
        """Build a batch. Each sentence has the ids of the decoder's first input, words and eos."""
        ids = pad_ids(sentences)
        tgt_in = ids[:, :-1].masked_fill(ids[:, :-1] == EOS_ID, PAD_ID)
        return cls(inputs, torch.tensor(rows), tgt_in, ids[:, 1:])

    @property
    def n_tokens(self) -> int:
        """The number of target words, eos included."""
        return int((self.tgt_out != PAD_ID).sum())


def caption_loss(model: Captioner, batch: CaptionBatch, settings: StepSettings) -> LossSum:
    """Return the summed cross-entropy of the sentences."""
    output = model(batch.inputs, batch.rows, batch.tgt_in)
    return cross_entropy(output, batch.tgt_out)


def train(
    model: Captioner, batches: Iterable[CaptionBatch], updates: int, lr: float
) -> Iterator[float]:
    """Train `model` with Adam for `updates` batches; yield each loss in nats per word.

    The learning rate rises linearly to the peak `lr`, then falls as a cosine.
    """
    optimizer = AdamConfig(beta2=_BETA2).build(model.named_parameters(), lr)
    cosine = CosineConfig(warmup=int(_WARMUP * updates), floor=_FINAL_LR)
    schedule = Schedule(cosine, optimizer, updates)
    settings = StepSettings(clip_norm=_CLIP_NORM)
    bar = tqdm(batches, unit="update", total=updates, leave=False, disable=None)
    for _, batch in zip(range(updates), bar, strict=False):
        model.train()
        result = train_step(model, optimizer, [batch], settings, loss_function=caption_loss)
        schedule.after_update()
        yield result.loss


@torch.inference_mode()
def annotate(model: Captioner, inputs: Tensor | Features) -> Memory:
    """Set the model to eval mode, and return the memory of the inputs."""
    return model.eval().encoder(inputs)


@torch.inference_mode()
def describe(
    model: Captioner, memory: Memory, first_ids: Int[Tensor, " B"], config: SearchConfig
) -> list[Hypothesis]:
    """Return the best sentence for each row of the memory, found by beam search.

    The `attention` of a hypothesis has a row for each word and eos, and a column per position.
    """
    n_positions = memory.keep.shape[1]
    state = model.eval().decoder.init_state(memory)
    start = SearchStart(model.step, state, first_ids, [n_positions] * len(first_ids), n_positions)
    return [hypotheses[0] for hypotheses in search_from(start, config)]

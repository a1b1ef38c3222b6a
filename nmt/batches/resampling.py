"""Noise and subword sampling, redrawn for every training pair in each epoch."""

import functools
import random
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nmt.batches.plan import Lengths, Rows
from nmt.corpora.sources import DataConfig
from nmt.text.noise import NoiseConfig, add_noise, insert_token, random_token
from nmt.text.subword_sampling import Sampler
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.types import Ids

_N_TOKENS = 4096


@functools.lru_cache(maxsize=8)
def _epoch_start(seed: int, epoch: int, kind: str) -> float:
    return random.Random(f"{seed}/{epoch}/{kind}").random()


@dataclass(frozen=True)
class Resampling:
    """Random noise (`data.noise`) and segmentation (`data.sampling`) of training pairs.

    Random draws depend only on (seed, epoch, row), not on the order of batches or on resuming.
    `samplers` are for the source and the target; a side whose sampler is None is not resampled.
    """

    noise: NoiseConfig
    tokenizers: Tokenizers
    samplers: tuple[Sampler | None, Sampler | None]
    max_pieces: int
    seed: int

    @classmethod
    def of(cls, config: DataConfig, tokenizers: Tokenizers, seed: int) -> "Resampling | None":
        """Return the resampling of `config`, or None if noise and sampling are off."""
        sides = (tokenizers.src, config.sampling.src), (tokenizers.tgt, config.sampling.tgt)
        src, tgt = (side.sampler(config.sampling, rate) for side, rate in sides)
        if not config.noise.is_on and src is None and tgt is None:
            return None
        return cls(config.noise, tokenizers, (src, tgt), config.max_pieces, seed)

    def appended_rows(self, rows: Rows, n_rows: int, epoch: int) -> Rows:
        """Return the row to append to each of `rows` in `epoch`.

        The result has the row itself if nothing is appended to it.
        """
        distance = random.Random(f"{self.seed}/{epoch}/distance").randrange(n_rows)
        is_merged = self._is_chosen(rows, epoch, "merge")
        return np.where(is_merged, (rows.astype(np.int64) + distance) % n_rows, rows)

    def token_lengths(self, rows: Rows, epoch: int) -> tuple[Lengths, Lengths]:
        """Return the numbers of pieces that tokens to copy add to each side of `rows`."""
        is_copied = self._is_chosen(rows, epoch, "copies")
        src, tgt = (is_copied * lengths[rows % len(lengths)] for lengths in self._tokens[1])
        return src, tgt

    def _is_chosen(self, rows: Rows | int, epoch: int, kind: Literal["copies", "merge"]) -> Any:
        """Return whether the noise `kind` is drawn for `rows` in `epoch`."""
        start, probability = _epoch_start(self.seed, epoch, kind), getattr(self.noise, kind)
        # Fractions of multiples of the golden ratio are uniform over every range of rows.
        return (rows * 0.6180339887498949 + start) % 1 < probability

    @functools.cached_property
    def _tokens(self) -> tuple[list[str], tuple[Lengths, Lengths]]:
        """Tokens to copy without unknown pieces on either side, and their numbers of pieces.

        Row r gets token r modulo the number of tokens. The plan of an epoch needs the lengths,
        because one long token in a batch of short sentences pads them all.
        """
        rng = random.Random(f"{self.seed}/tokens")
        tokens = [random_token(rng) for _ in range(_N_TOKENS if self.noise.copies else 0)]
        sides = [side.encode_batch(tokens) for side in (self.tokenizers.src, self.tokenizers.tgt)]
        rows = zip(tokens, *sides, strict=True)
        table = [row for row in rows if UNK_ID not in row[1] + row[2]] or [("", (), ())]
        src, tgt = (np.array([len(row[side]) for row in table], np.int32) for side in (1, 2))
        return [row[0] for row in table], (src, tgt)

    def merge(self, *pairs: tuple[Ids, Ids]) -> tuple[Ids, Ids]:
        """Return the ids of the joined texts, or pairs[0] if they have unk or are too long."""
        sides = zip((self.tokenizers.src, self.tokenizers.tgt), *pairs, strict=True)
        src, tgt = (
            side.encode_batch([" ".join(side.decode(part, restore=False) for part in ids)])[0]
            for side, *ids in sides
        )
        has_unknown = any(UNK_ID in ids for pair in pairs for ids in pair)
        fits = max(len(src), len(tgt)) <= self.max_pieces
        return (src, tgt) if fits and not has_unknown else pairs[0]

    def resample(self, src: Ids, tgt: Ids, epoch: int, row: int) -> tuple[Ids, Ids]:
        """Return the ids of a pair after noise and sampling. `row` is the pair's row in `epoch`.

        If a new side is empty or longer than `max_pieces`, return `src` and `tgt` unchanged.
        """
        rng = random.Random(f"{self.seed}/{epoch}/{row}")
        pair = src, tgt
        if self.noise.is_on:
            is_copied = self._is_chosen(row, epoch, "copies")
            tokens = self._tokens[0] if is_copied else [""]
            pair = self._add_noise(src, tgt, tokens[row % len(tokens)], rng)
        new_src, new_tgt = (
            ids if sampler is None else sampler.sample(ids, rng)
            for sampler, ids in zip(self.samplers, pair, strict=True)
        )
        fits = all(0 < len(ids) <= self.max_pieces for ids in (new_src, new_tgt))
        return (new_src, new_tgt) if fits else (src, tgt)

    def _add_noise(self, src: Ids, tgt: Ids, token: str, rng: random.Random) -> tuple[Ids, Ids]:
        """Add noise to the decoded texts. Ids with unk, which have no exact text, are unchanged."""
        if UNK_ID in src:
            return src, tgt
        sides = self.tokenizers.src, self.tokenizers.tgt
        text = sides[0].decode(src, restore=False)
        noisy_text = add_noise(text, self.noise, rng)
        new_src = src if noisy_text == text else sides[0].encode_batch([noisy_text])[0]
        if token and UNK_ID not in tgt:
            texts = insert_token(noisy_text, sides[1].decode(tgt, restore=False), token, rng)
            new_src, tgt = (side.encode_batch([texts[i]])[0] for i, side in enumerate(sides))
        return new_src, tgt

"""Source noise and subword sampling, redrawn for every training pair in each epoch."""

import random
from dataclasses import dataclass

from nmt.corpora.sources import DataConfig
from nmt.text.noise import NoiseConfig, add_noise
from nmt.text.subword_sampling import Sampler
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.types import Ids


@dataclass(frozen=True)
class Resampling:
    """Draws the noise (`data.noise`) and the segmentation (`data.sampling`) of training pairs.

    The draws depend on (seed, epoch, row) only, not on the order of batches or on resuming.
    `samplers` sample the source and the target; None keeps the pieces of that side.
    """

    noise: NoiseConfig
    src_tokenizer: Tokenizer
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
        return cls(config.noise, tokenizers.src, (src, tgt), config.max_pieces, seed)

    def pair(self, src: Ids, tgt: Ids, epoch: int, row: int) -> tuple[Ids, Ids]:
        """Return the ids of a pair after noise and sampling. `row` is the pair's row in `epoch`.

        If a new side is empty or longer than `max_pieces`, return `src` and `tgt` unchanged.
        """
        rng = random.Random(f"{self.seed}/{epoch}/{row}")
        new_src = self._add_noise(src, rng) if self.noise.is_on else src
        new_pair = tuple(
            ids if sampler is None else sampler.sample(ids, rng)
            for sampler, ids in zip(self.samplers, (new_src, tgt), strict=True)
        )
        fits = all(0 < len(ids) <= self.max_pieces for ids in new_pair)
        return (new_pair[0], new_pair[1]) if fits else (src, tgt)

    def _add_noise(self, src: Ids, rng: random.Random) -> Ids:
        """Add noise to the decoded text. Ids with unk are unchanged: they cannot be decoded."""
        if UNK_ID in src:
            return src
        text = self.src_tokenizer.decode(src, restore=False)
        noisy_text = add_noise(text, self.noise, rng)
        return src if noisy_text == text else self.src_tokenizer.encode_batch([noisy_text])[0]

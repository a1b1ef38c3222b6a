"""Other source texts and other pieces of the training pairs in each epoch."""

import random
from dataclasses import dataclass

from nmt.corpora.sources import DataConfig
from nmt.text.noise import NoiseConfig, disturb
from nmt.text.subword_sampling import Sampler
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.types import Ids


@dataclass(frozen=True)
class Resampling:
    """Draws the noise (`data.noise`) and the pieces (`data.sampling`) of training pairs.

    All chance depends on (seed, epoch, row) only: neither the order of batches nor a resumption
    changes it.
    """

    noise: NoiseConfig
    src_tokenizer: Tokenizer
    samplers: tuple[Sampler | None, Sampler | None]
    max_pieces: int
    seed: int

    @classmethod
    def of(cls, config: DataConfig, tokenizers: Tokenizers, seed: int) -> "Resampling | None":
        """Build the noise and the samplers of `config`; None where both are off."""
        sides = (tokenizers.src, config.sampling.src), (tokenizers.tgt, config.sampling.tgt)
        src, tgt = (side.sampler(config.sampling, rate) for side, rate in sides)
        if not config.noise.is_on and src is None and tgt is None:
            return None
        return cls(config.noise, tokenizers.src, (src, tgt), config.max_pieces, seed)

    def pair(self, src: Ids, tgt: Ids, epoch: int, row: int) -> tuple[Ids, Ids]:
        """The pair of the row in this epoch; `src` and `tgt` are its plain ids.

        A pair of which a side would be empty or longer than `max_pieces` stays plain.
        """
        rng = random.Random(f"{self.seed}/{epoch}/{row}")
        new_src = self._disturbed(src, rng) if self.noise.is_on else src
        drawn = tuple(
            ids if sampler is None else sampler.sample(ids, rng)
            for sampler, ids in zip(self.samplers, (new_src, tgt), strict=True)
        )
        fits = all(0 < len(ids) <= self.max_pieces for ids in drawn)
        return (drawn[0], drawn[1]) if fits else (src, tgt)

    def _disturbed(self, src: Ids, rng: random.Random) -> Ids:
        """The ids of the text with noise. A text with an unknown piece cannot be had from ids."""
        if UNK_ID in src:
            return src
        text = self.src_tokenizer.decode(src, restore=False)
        disturbed = disturb(text, self.noise, rng)
        return src if disturbed == text else self.src_tokenizer.encode_batch([disturbed])[0]

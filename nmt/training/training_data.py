"""The data of a training: tokenizers, encoded pairs in batches, and a validation set."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from nmt.config import RunConfig
from nmt.data.batching import Batcher, EncodedCorpus, encode_pairs
from nmt.data.corpora import read_examples, resolve_split, split_files, split_part, stream_split
from nmt.data.encoded_cache import DataSet, cached_corpus
from nmt.data.resampling import Resampling
from nmt.data.sources import SplitConfig, pairs_of
from nmt.errors import ConfigError, DataError
from nmt.runs.directory import RunDirectory
from nmt.text.tokenizer import MANIFEST_NAME, Tokenizers, size_notes, train_tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.text.word_tokenizer import WordConfig
from nmt.training.validation import Validator
from nmt.types import SentencePair

_NO_LIMIT = 10**9
"""Pieces: validation pairs are never left out for their length."""

_SAMPLED_PAIRS = 1000

_MANY_UNKNOWN = 0.2
"""Share of unknown tokens in the training text above which a line says so."""


@dataclass(frozen=True)
class TrainingData:
    """The encoded corpus of a run, cut into batches, and its validation set if it has one."""

    tokenizers: Tokenizers
    batcher: Batcher
    validator: Validator | None

    @classmethod
    def load(
        cls, config: RunConfig, run: RunDirectory, say: Callable[[str], None]
    ) -> "TrainingData":
        """Read the data of `config`, and learn the run's tokenizers if it has none yet.

        Raises ConfigError where a setting needs a validation set that is not there, DataError.
        """
        train = config.train
        tokenizers, corpus = _tokenizers_and_corpus(config, run, say)
        corpus = replace(corpus, resampling=Resampling.of(config.data, tokenizers, config.seed))
        validator = _validator(config, tokenizers)
        batcher = Batcher(corpus, train.batch_size, train.batch_by, config.seed)
        return cls(tokenizers, batcher, validator)

    @property
    def tgt_vocab_size(self) -> int:
        """Target tokens that the vocabulary knows."""
        return len(self.tokenizers.tgt.vocab)


def _tokenizers_and_corpus(
    config: RunConfig, run: RunDirectory, say: Callable[[str], None]
) -> tuple[Tokenizers, EncodedCorpus]:
    """The run's tokenizers and its encoded training pairs.

    `data.cache` bounds the memory that this takes; the result is the same without.
    """
    data = config.data
    split = resolve_split(data, "train")
    if split is None:
        raise ConfigError("data.train: missing; name a corpus (data.corpus) or files (data.train)")
    if data.cache is None:
        pairs = list(stream_split(split, data))
        tokenizers = _tokenizers(config, run, lambda: pairs)
        corpus = encode_pairs(pairs, tokenizers, data.max_pieces)
    else:
        tokenizers = _tokenizers(config, run, lambda: stream_split(split, data))
        corpus = cached_corpus(
            data.cache,
            _data_set(config, split),
            tokenizers,
            lambda: stream_split(split, data),
            say,
        )
    if not len(corpus):
        reasons = ", ".join(f"{count} {reason}" for reason, count in corpus.dropped.items())
        n_pairs = sum(corpus.dropped.values())
        raise DataError(f"data.train: none of {n_pairs} pairs is fit for training: {reasons}")
    return tokenizers, corpus


def _validator(config: RunConfig, tokenizers: Tokenizers) -> Validator | None:
    """The validation set, with every reference of a sentence as a pair of its own for the loss."""
    split = resolve_split(config.data, "valid")
    if split is None:
        _check_no_validation(config)
        return None
    examples = read_examples(split, config.data)
    corpus = encode_pairs(pairs_of(examples), tokenizers, _NO_LIMIT)
    return Validator(corpus, examples, tokenizers, config.valid, config.search)


def _check_no_validation(config: RunConfig) -> None:
    """Raise ConfigError if a setting waits for validations that will never come."""
    needs_one = {
        "valid.patience": config.valid.patience is not None,
        "train.schedule.kind 'plateau'": config.train.schedule.kind == "plateau",
    }
    for setting, is_set in needs_one.items():
        if is_set:
            raise ConfigError(
                f"{setting} needs a validation set, and corpus '{config.data.corpus}' has no "
                "split valid; give data.valid"
            )


def vocabulary_notes(tokenizers: Tokenizers, corpus: EncodedCorpus) -> list[str]:
    """A line for each vocabulary that is smaller than the default or lacks many words."""
    notes = size_notes(tokenizers)
    every = max(1, len(corpus) // _SAMPLED_PAIRS)
    for side, ids in ((tokenizers.src, corpus.src_ids), (tokenizers.tgt, corpus.tgt_ids)):
        rows = [ids[row] for row in range(0, len(corpus), every)]
        share = sum(row.count(UNK_ID) for row in rows) / sum(map(len, rows))
        if share > _MANY_UNKNOWN:
            cure = "tokenizer.character_coverage is low"
            if isinstance(side.config, WordConfig):
                cure = "lower tokenizer.min_freq, or take tokenizer.kind: sentencepiece"
            notes.append(f"{share:.0%} of the {side.lang} training text is unknown to it; {cure}")
    return notes


def _data_set(config: RunConfig, split: SplitConfig) -> DataSet:
    data = config.data
    files = split_files(split, data)
    name = re.sub(r"[^\w-]", "_", split.corpus or files[0].name.partition(".")[0])
    return DataSet(name, tuple(files), split_part(split, data), data.max_pieces)


def _tokenizers(
    config: RunConfig, run: RunDirectory, pairs: Callable[[], Iterable[SentencePair]]
) -> Tokenizers:
    """The run's tokenizers; without any, learn them from the training pairs and save them.

    Raises ConfigError if the run's tokenizers were learned by another config.
    """
    data = config.data
    if (run.tokenizer_path / MANIFEST_NAME).is_file():
        found = Tokenizers.load(run.tokenizer_path)
        _check_found(found, config, run)
        return found
    chosen = _spaced(pairs, data.vocab_pairs)
    tokenizers = train_tokenizers(
        config.tokenizer, chosen, data.src_lang, data.tgt_lang, config.seed
    )
    tokenizers.save(run.tokenizer_path)
    return tokenizers


def _spaced(pairs: Callable[[], Iterable[SentencePair]], count: int) -> Iterator[SentencePair]:
    """At most `count` pairs at equal distances; each call of `pairs` iterates over all of them."""
    total = sum(1 for _ in pairs())
    return islice(pairs(), 0, None, max(1, -(-total // count)))


def _check_found(found: Tokenizers, config: RunConfig, run: RunDirectory) -> None:
    data = config.data
    compared = {
        "tokenizer": (found.src.config, config.tokenizer),
        "data.src_lang": (found.src.lang, data.src_lang),
        "data.tgt_lang": (found.tgt.lang, data.tgt_lang),
    }
    for key, (there, wanted) in compared.items():
        if there != wanted:
            raise ConfigError(
                f"{run.tokenizer_path}: learned with another {key} ({there}) than the config's "
                f"({wanted}); remove that folder, or use the old values"
            )

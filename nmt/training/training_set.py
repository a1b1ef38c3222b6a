"""The training pairs as ids: all in memory, or from a data set on the disk (`data.cache`)."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from nmt.config import RunConfig
from nmt.data.batching import EncodedCorpus, encode_pairs
from nmt.data.corpora import resolve_split, split_files, split_part, stream_split
from nmt.data.encoded_cache import DataSet, cached_corpus
from nmt.data.sources import SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.runs.directory import RunDirectory
from nmt.text.tokenizer import MANIFEST_NAME, Tokenizers, size_notes, train_tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.text.word_tokenizer import WordConfig
from nmt.types import SentencePair

_SAMPLED_PAIRS = 1000

_MANY_UNKNOWN = 0.2
"""Share of unknown tokens in the training text above which a line says so."""


def training_set(
    config: RunConfig, run: RunDirectory, say: Callable[[str], None]
) -> tuple[Tokenizers, EncodedCorpus]:
    """The run's tokenizers, learned now if need be, and its training pairs, encoded.

    With `data.cache` in constant memory, and otherwise the same. Raises ConfigError, DataError.
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


def vocabulary_notes(tokenizers: Tokenizers, corpus: EncodedCorpus) -> list[str]:
    """A line for each vocabulary that is smaller than the default, or that lacks many words."""
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
    """The run's own, or learned from its training pairs and saved with it.

    Raises ConfigError where those that are there were learned by another config.
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
    """At most `count` of the pairs, every n-th; `pairs` gives them all, each time."""
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

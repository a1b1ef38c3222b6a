"""The data of a training: tokenizers, batches of encoded pairs, and a validation set."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice

from nmt.batches.batching import Batcher, EncodedCorpus, encode_pairs
from nmt.batches.guided_alignment import encode_aligned_pairs
from nmt.batches.plan import Mixture, mixture_of
from nmt.batches.resampling import Resampling
from nmt.batches.store import PairSource, cached_corpus
from nmt.config import RunConfig
from nmt.corpora.corpora import read_examples, resolve_split, split_files, split_key, stream_split
from nmt.corpora.language_check import language_notes
from nmt.corpora.sources import DataConfig, pairs_of
from nmt.errors import ConfigError, DataError
from nmt.evaluation.metrics import validation_scoring
from nmt.models.base import Seq2Seq
from nmt.runs.directory import RunDirectory
from nmt.settings.keys import differences
from nmt.text.tokenizer import (
    MANIFEST_NAME,
    TokenizerConfig,
    Tokenizers,
    read_word_hashes,
    record_words,
    size_notes,
    tokenizer_from_file,
    train_tokenizers,
)
from nmt.text.vocabulary import UNK_ID
from nmt.training.initial_weights import find_initial_run
from nmt.training.resume import has_checkpoint
from nmt.training.validation import Validator
from nmt.translation.heads import cross_head_indices
from nmt.types import SentencePair

_NO_LIMIT = 10**9  # max_pieces of validation pairs, so that no pair is left out for its length
_SAMPLED_PAIRS = 1000  # pairs checked for unknown tokens and for their language
_MANY_UNKNOWN = 0.2  # share of unknown tokens in the training text above which the user is told


@dataclass(frozen=True)
class TrainingData:
    """The tokenizers of a run, its encoded corpus in batches, and its validation set.

    `batchers[0]` makes the batches before the first of data.stages, and `batchers[i]` the batches
    in stage i, counted from 1.
    """

    tokenizers: Tokenizers
    batchers: tuple[Batcher, ...]
    validator: Validator | None

    @property
    def batcher(self) -> Batcher:
        """The batcher before the first stage."""
        return self.batchers[0]

    @classmethod
    def load(
        cls, config: RunConfig, run: RunDirectory, say: Callable[[str], None]
    ) -> "TrainingData":
        """Read the data of `config`, and train tokenizers if `run` has none yet.

        Raises ConfigError if a setting needs a missing validation set, and DataError for bad data.
        """
        tokenizers, corpus = _tokenizers_and_corpus(config, run, say)
        tokenizers = replace(tokenizers, reverse_target=config.data.reverse_target)
        stages = map(config.data.in_stage, range(len(config.data.stages) + 1))
        batchers = tuple(_batcher(config, data, tokenizers, corpus) for data in stages)
        return cls(tokenizers, batchers, _validator(config, tokenizers))


def _batcher(
    config: RunConfig, data: DataConfig, tokenizers: Tokenizers, corpus: EncodedCorpus
) -> Batcher:
    train, seed = config.train, config.seed
    mixture, resampling = _mixture(data, corpus.sizes, seed), Resampling.of(data, tokenizers, seed)
    corpus = replace(corpus, mixture=mixture, resampling=resampling)
    corpus = replace(corpus, reverse_target=data.reverse_target)
    return Batcher(corpus, train.batch_size, train.batch_by, seed)


def _tokenizers_and_corpus(
    config: RunConfig, run: RunDirectory, say: Callable[[str], None]
) -> tuple[Tokenizers, EncodedCorpus]:
    """Return the run's tokenizers and the encoded training pairs.

    With `data.cache` the pairs are encoded to disk in bounded memory. The result is the same.
    """
    data, guided, sources = config.data, config.train.guided, pair_sources(config)
    texts = [list(source.pairs()) for source in sources] if data.cache is None else []
    tokenizers = load_or_train_tokenizers(
        config, run, lambda: chain.from_iterable(texts or (source.pairs() for source in sources))
    )
    if data.cache is not None:
        corpus = cached_corpus(data.cache, sources, tokenizers, say)
    elif guided is None:
        corpus = _joined([encode_pairs(pairs, tokenizers, data.max_pieces) for pairs in texts])
    elif len(texts) > 1:
        raise ConfigError("train.loss: guided_alignment needs one corpus: remove data.train.mix")
    else:
        split = resolve_split(data, "train")
        is_cut = split is not None and split.first is not None
        corpus = encode_aligned_pairs(texts[0], guided.links, tokenizers, data.max_pieces, is_cut)
    if not len(corpus):
        reasons = ", ".join(f"{count} {reason}" for reason, count in corpus.dropped.items())
        what = f"none of {sum(corpus.dropped.values())} pairs is fit for training"
        raise DataError(f"data.train: {what}: {reasons or 'there are no pairs'}")
    return tokenizers, corpus


def _joined(corpora: Sequence[EncodedCorpus]) -> EncodedCorpus:
    dropped: Counter[str] = Counter()
    for corpus in corpora:
        dropped.update(corpus.dropped)
    src = tuple(chain.from_iterable(corpus.src_ids for corpus in corpora))
    tgt = tuple(chain.from_iterable(corpus.tgt_ids for corpus in corpora))
    return EncodedCorpus(src, tgt, dict(dropped), sizes=tuple(map(len, corpora)))


def _mixture(data: DataConfig, sizes: tuple[int, ...], seed: int) -> Mixture | None:
    """Return the mixture of data.train.mix, if set. Raises DataError if a corpus has no rows."""
    train = data.train
    if train is None or train.mix is None:
        return None
    for number, size in enumerate(sizes):
        if not size:
            raise DataError(f"data.train.mix.{number}: none of its pairs is fit for training")
    return mixture_of(sizes, train.weights, train.temperature, seed)


def _validator(config: RunConfig, tokenizers: Tokenizers) -> Validator | None:
    """Return the validator, or None without a validation set.

    The loss counts one pair per reference. Raises ConfigError if a setting needs the missing set.
    """
    split = resolve_split(config.data, "valid")
    if split is None:
        for setting, is_set in (
            ("valid.patience", config.valid.patience is not None),
            ("train.schedule.kind 'plateau'", config.train.schedule.kind == "plateau"),
        ):
            if is_set:
                name = config.data.corpus
                lack = f"corpus '{name}' has no split valid" if name else "there is none"
                raise ConfigError(f"{setting} needs a validation set, but {lack}; give data.valid")
        return None
    examples = read_examples(split, config.data)
    corpus = encode_pairs(pairs_of(examples), tokenizers, _NO_LIMIT)
    corpus = replace(corpus, reverse_target=config.data.reverse_target)
    return Validator(
        corpus,
        examples,
        tokenizers,
        config=config.valid,
        scoring=validation_scoring(config),
        search=config.search,
        has_attention=config.model.kind != "rnn" or config.model.attention.kind != "none",
    )


def guided_heads(config: RunConfig, model: Seq2Seq) -> tuple[int, ...] | None:
    """Return the indices of the cross-attention heads that guided alignment trains, or None.

    train.loss.heads selects the heads. Raises ConfigError if it selects anything else. None
    means the mean of the model's `averaged_heads`, or that the loss is not guided alignment.
    """
    guided = config.train.guided
    if guided is None:
        return None
    try:
        return cross_head_indices(guided.heads, model.head_names_by_kind)
    except ConfigError as error:
        text = str(error).replace("`heads`", "train.loss.heads")
        raise ConfigError(text) from None


def vocabulary_notes(
    config: TokenizerConfig, tokenizers: Tokenizers, corpus: EncodedCorpus
) -> list[str]:
    """Return warnings about small vocabularies, unknown tokens and text in a wrong language."""
    notes = size_notes(tokenizers)
    every = max(1, len(corpus) // _SAMPLED_PAIRS)
    texts: list[list[str]] = []
    for side, ids in ((tokenizers.src, corpus.src_ids), (tokenizers.tgt, corpus.tgt_ids)):
        rows = [ids[row] for row in range(0, len(corpus), every)]
        texts.append([side.decode(row) for row in rows])
        share = sum(row.count(UNK_ID) for row in rows) / sum(map(len, rows))
        if share > _MANY_UNKNOWN:
            cure = side.config.unknown_cure
            if config.model_files is not None:
                cure = f"tokenizer.{config.model_files[0][0]} may have been trained on other text"
            notes.append(f"{share:.0%} of the {side.lang} training tokens are unknown; {cure}")
    src_texts, tgt_texts = texts
    langs = tokenizers.src.lang, tokenizers.tgt.lang
    return [*notes, *language_notes(src_texts, tgt_texts, *langs)]


def pair_sources(config: RunConfig) -> list[PairSource]:
    """Return the corpora of data.train to encode. Raises ConfigError if data.train is not set."""
    data = config.data
    split = resolve_split(data, "train")
    if split is None:
        raise ConfigError("data.train: missing; name a corpus (data.corpus) or files (data.train)")
    sources = []
    for part in split.corpora:
        files, pairs = tuple(split_files(part, data)), partial(stream_split, part, data)
        name = re.sub(r"[^\w-]", "_", part.corpus or files[0].name.partition(".")[0])
        sources.append(PairSource(name, files, split_key(part, data), data.max_pieces, pairs))
    return sources


def load_or_train_tokenizers(
    config: RunConfig, run: RunDirectory, pairs: Callable[[], Iterable[SentencePair]]
) -> Tokenizers:
    """Return the run's tokenizers. If it has none, train them on `pairs()` and save them.

    At most data.vocab_pairs pairs are used. If `config` names tokenizer files or the run
    train.init_from, their tokenizers are saved instead. Raises ConfigError if the tokenizers do not
    fit the config. Also records the source words of `pairs()` and of the run train.init_from.
    """
    other_words: frozenset[int] = frozenset()
    if (run.tokenizer_path / MANIFEST_NAME).is_file():
        tokenizers = Tokenizers.load(run.tokenizer_path)
        what = f"{run.tokenizer_path}: these tokenizers"
        _check_tokenizers(tokenizers, config, what, has_checkpoint(run))
        return tokenizers
    if config.train.init_from is not None:
        other, _ = find_initial_run(config.train.init_from)
        tokenizers = other.tokenizers()
        other_words = read_word_hashes(other.directory.tokenizer_path)
        _check_tokenizers(tokenizers, config, f"train.init_from: {other.name}: its tokenizers")
    else:
        data, settings = config.data, config.tokenizer
        sample = () if settings.model_files is not None else _spaced(pairs, data.vocab_pairs)
        tokenizers = train_tokenizers(settings, sample, data.src_lang, data.tgt_lang, config.seed)
    if config.train.init_from is None or other_words:
        record_words(run.tokenizer_path, (pair.src_text for pair in pairs()), other_words)
    tokenizers.save(run.tokenizer_path)  # last: from then on the folder is complete
    return tokenizers


def _spaced(pairs: Callable[[], Iterable[SentencePair]], count: int) -> Iterator[SentencePair]:
    """Yield at most `count` equally spaced pairs. Each call of `pairs` iterates over all pairs."""
    total = sum(1 for _ in pairs())
    return islice(pairs(), 0, None, max(1, -(-total // count)))


def _check_tokenizers(
    tokenizers: Tokenizers, config: RunConfig, what: str, has_learned: bool = False
) -> None:
    """Raise ConfigError if the tokenizers do not fit the config. `what` begins the message.

    If the config names tokenizer files, the tokenizers must come from these files. If the run
    `has_learned`, a missing file is no error, since the run has a copy.
    """
    data, settings = config.data, config.tokenizer
    sides = tokenizers.src, tokenizers.tgt
    for side, file in zip(sides, settings.model_files or (), strict=False):
        key, path = file
        if has_learned and not path.exists():
            continue
        expected = tokenizer_from_file(settings, file, side.lang)
        if (expected.config, expected.model_bytes) != (side.config, side.model_bytes):
            raise ConfigError(
                f"{what} differ from the file that tokenizer.{key} names, {path}; restore the "
                "file, or train in another `run`"
            )
    old_values = tokenizers.src.config.model_dump()
    new_values = old_values if settings.model_files is not None else settings.model_dump()
    old_langs = {"src_lang": tokenizers.src.lang, "tgt_lang": tokenizers.tgt.lang}
    old_sections = {"tokenizer": old_values, "data": old_langs}
    new_sections = {"tokenizer": new_values, "data": data.model_dump(include=set(old_langs))}
    difference = next(differences(old_sections, new_sections), None)
    if difference is not None:
        key, old, new = difference
        got = f"{what} were made with {key} = {old}, but the config has {new}"
        raise ConfigError(f"{got}; use the old value, or another `run`")

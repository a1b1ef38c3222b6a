"""A first config for a corpus: what is found in its files, and the sizes that fit to it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nmt.corpora.corpora import read_examples, stream_split
from nmt.corpora.corpus_report import TRAIN, Lengths, SplitReport, corpus_report
from nmt.corpora.language_check import are_swapped
from nmt.corpora.sources import DataConfig, pairs_of
from nmt.errors import ConfigError
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import Tokenizers, train_tokenizers
from nmt.types import SentencePair

MAX_CHECKED = 2_000_000
"""Pairs of the training text that are checked: the first ones. `nmt corpus check` reads all."""

_SAMPLED = 100_000
"""Pairs, evenly spaced, from which the pieces are learned and the updates are timed."""

_HELD_OUT_SHARE, _MAX_HELD_OUT = 50, 1000
"""A set that is held out has one sentence in 50, and 1000 at most: BLEU is then sure to 1 or 2."""

_FEWEST_PIECES = 500
"""A text that does not allow so many pieces gets all that it allows."""

_MANY_PIECES = 100, 250
"""Bounds of data.max_pieces: its default, and a length at which attention is still affordable."""

_MANY_FAULTS = 0.02


@dataclass(frozen=True)
class Sizes:
    """The sizes for corpora of fewer pairs than `below` (None: of any number), by their keys."""

    below: int | None
    vocab_size: int
    embedding: int
    hidden: int
    dropout: float
    epochs: int
    batch_size: int
    lr: float


SIZES = (
    Sizes(5_000, 2_000, 128, 192, 0.35, 40, 32, 0.002),
    Sizes(20_000, 3_000, 128, 256, 0.3, 20, 64, 0.002),
    Sizes(80_000, 6_000, 256, 320, 0.35, 30, 64, 0.0015),
    Sizes(400_000, 6_000, 192, 256, 0.2, 10, 128, 0.002),
    Sizes(4_000_000, 16_000, 512, 512, 0.2, 5, 128, 0.001),
    Sizes(None, 32_000, 512, 1024, 0.1, 2, 128, 0.0007),
)
"""From the recipes: `starter` in the second row, `multi30k` in the third, `tatoeba` in the fourth.
The others go on from these, and are not measured."""

_LARGE = 1_000_000
"""Pairs from which on the encoded text goes to the disk, and validation is not once an epoch."""


@dataclass(frozen=True)
class Found:
    """A corpus as it was found: its training pairs, a sample of them, pieces, and the check."""

    data: DataConfig
    n_pairs: int
    sample: Sequence[SentencePair]
    tokenizer: SentencePieceConfig
    tokenizers: Tokenizers
    report: Sequence[SplitReport]


def sizes_for(n_pairs: int) -> Sizes:
    """The row of SIZES for so many pairs."""
    return next(sizes for sizes in SIZES if sizes.below is None or n_pairs < sizes.below)


def examine(data: DataConfig, is_order_known: bool = True, seed: int = 1) -> Found:
    """Read the splits of `data`, learn pieces, and check the pairs.

    Where `is_order_known` is false, the languages are exchanged if the text says so. Raises
    DataError for files that cannot be read as sentence pairs.
    """
    split = data.train
    assert split is not None
    n_pairs = sum(1 for _ in stream_split(split, data))
    sample = list(islice(stream_split(split, data), 0, None, max(1, -(-n_pairs // _SAMPLED))))
    texts = [pair.src_text for pair in sample], [pair.tgt_text for pair in sample]
    if not is_order_known and are_swapped(*texts, data.src_lang, data.tgt_lang):
        data = data.model_copy(update={"src_lang": data.tgt_lang, "tgt_lang": data.src_lang})
    tokenizer, tokenizers = _tokenizers(data, n_pairs, sample, seed)
    others = {n: other for n in ("valid", "test") if (other := getattr(data, n)) is not None}
    splits = {
        TRAIN: islice(stream_split(split, data), MAX_CHECKED),
        **{name: pairs_of(read_examples(other, data)) for name, other in others.items()},
    }
    return Found(data, n_pairs, sample, tokenizer, tokenizers, corpus_report(splits, data))


def _tokenizers(
    data: DataConfig, n_pairs: int, sample: Sequence[SentencePair], seed: int
) -> tuple[SentencePieceConfig, Tokenizers]:
    """Pieces of the size for the corpus; of fewer where its words are few."""
    n_words = min(
        len({word for text in side for word in text.split()})
        for side in ([pair.src_text for pair in sample], [pair.tgt_text for pair in sample])
    )
    size: int | None = min(sizes_for(n_pairs).vocab_size, n_words // 200 * 100)
    if size is not None and size < _FEWEST_PIECES:
        size = None
    config = SentencePieceConfig(model_type="bpe", vocab_size=size, case="markup")
    languages = data.src_lang, data.tgt_lang
    try:
        return config, train_tokenizers(config, sample, *languages, seed)
    except ConfigError:
        if size is None:
            raise
        config = config.model_copy(update={"vocab_size": None})
        return config, train_tokenizers(config, sample, *languages, seed)


Values = dict[str, object]
Comments = dict[tuple[str | int, ...], str]


def proposed_config(name: str, corpus: Found) -> tuple[Values, Comments]:
    """The config for a corpus as nested dicts, and comments on its keys."""
    data, sizes = corpus.data, sizes_for(corpus.n_pairs)
    longest = max(
        Lengths.of(list(map(len, tokenizer.encode_batch(texts)))).p99
        for tokenizer, texts in (
            (corpus.tokenizers.src, [pair.src_text for pair in corpus.sample]),
            (corpus.tokenizers.tgt, [pair.tgt_text for pair in corpus.sample]),
        )
    )
    least, most = _MANY_PIECES
    n_sources = len({pair.src_text for pair in corpus.sample})
    n_held_out = max(1, min(_MAX_HELD_OUT, n_sources // _HELD_OUT_SHARE))
    held_out = {n: n_held_out for n in ("valid", "test") if getattr(data, n) is None}
    n_updates = sizes.epochs * math.ceil(corpus.n_pairs / sizes.batch_size)
    is_large = corpus.n_pairs >= _LARGE
    readout = {"kind": "deep", "size": sizes.embedding, "activation": "tanh"}
    values: Values = {
        "name": name,
        "data": {
            "src_lang": data.src_lang,
            "tgt_lang": data.tgt_lang,
            **{
                name: split.model_dump(mode="json", exclude_none=True)
                for name in (TRAIN, "valid", "test")
                if (split := getattr(data, name)) is not None
            },
            **({"held_out": held_out} if held_out else {}),
            "max_pieces": min(most, max(least, -(-longest // 10) * 10)),
            **({"cache": "cache"} if is_large else {}),
        },
        "tokenizer": corpus.tokenizer.model_dump(
            include={"kind", "model_type", "vocab_size", "case"}
        ),
        "model": {
            "embedding": sizes.embedding,
            "hidden": sizes.hidden,
            "dropout": sizes.dropout,
            "decoder": {"kind": "conditional", "initial_state": "mean", "readout": readout},
            "tie_embeddings": "target",
        },
        "train": {
            "epochs": sizes.epochs,
            "batch_size": sizes.batch_size,
            "lr": sizes.lr,
            "loss": {"kind": "cross_entropy", "smoothing": 0.1},
            "precision": "auto",
            "schedule": {"kind": "cosine", "warmup": max(1, min(400, n_updates // 20))},
        },
        "valid": {**({"every": 5000} if is_large else {}), "max_examples": 500},
        "search": {"beam": 5},
    }
    comments: Comments = {
        ("data", "max_pieces"): f"99 % of the sentences have at most {longest} pieces; pairs with "
        "more than this are left out, and counted",
        ("tokenizer", "case"): "words in capitals share the pieces of those in lower case",
        ("model", "hidden"): f"a size for {corpus.n_pairs:,} pairs",
        ("train", "precision"): "bf16 where the device is fast in it",
        ("valid", "max_examples"): "sentences that are translated for BLEU at each validation",
    }
    if held_out:
        comments["data", "held_out"] = (
            "sentences that are not trained on, with all their translations"
        )
    if is_large:
        comments["data", "cache"] = "folder for the encoded text, so that memory need not hold it"
    return values, comments


def warnings(corpus: Found) -> Iterator[str]:
    """A line for each sign that the files are not what they should be."""
    for split in corpus.report:
        yield from (f"look at {split.name}: {doubt}" for doubt in split.suspicions)
        if is_messy(split):
            faults = ", ".join(f"{n:,} {reason}" for reason, n in split.left_out.items())
            yield f"look at {split.name}: of {split.pairs:,} pairs {faults}"
        if split.in_train is not None and (n_pairs := split.in_train["pair"]):
            yield f"look at {split.name}: {n_pairs:,} of its pairs are in {TRAIN} too"
    if corpus.n_pairs > MAX_CHECKED:
        yield f"only the first {MAX_CHECKED:,} of {corpus.n_pairs:,} pairs were checked"


def is_messy(split: SplitReport) -> bool:
    """Whether `nmt corpus clean` would leave out many pairs."""
    return sum(split.left_out.values()) > _MANY_FAULTS * split.pairs

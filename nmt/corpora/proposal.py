"""A first config for a corpus, with sizes that depend on the number of sentence pairs."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nmt.corpora.corpora import read_examples, stream_split
from nmt.corpora.corpus_report import TRAIN, LengthStatistics, SplitReport, corpus_report
from nmt.corpora.language_check import are_swapped
from nmt.corpora.sources import DataConfig, pairs_of
from nmt.errors import ConfigError
from nmt.settings.yaml_text import flow_yaml
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import Tokenizers, train_tokenizers
from nmt.types import SentencePair

MAX_CHECKED = 2_000_000  # training pairs that are checked, from the first
_SAMPLED = 100_000  # number of evenly spaced pairs that train the tokenizers and time the updates

_HELD_OUT_RATIO, _MAX_HELD_OUT = 50, 1000
"""A held-out set has one in 50 sentences, at most 1000, which measure BLEU to within 1 or 2."""

_MIN_VOCAB = 500  # smallest explicit vocab_size; below it, the tokenizer chooses the size
_MAX_PIECES = 100, 250  # smallest data.max_pieces, its default, and largest, to limit attention
_MESSY_SHARE = 0.02  # a split with a larger share of faulty pairs should be cleaned


@dataclass(frozen=True)
class Preset:
    """Config values for a corpus of fewer than `pair_limit` pairs. None means no limit."""

    pair_limit: int | None
    vocab_size: int
    embedding: int
    hidden: int
    dropout: float
    epochs: int
    batch_size: int
    lr: float


PRESETS = (
    Preset(5_000, 2_000, 128, 192, 0.35, 40, 32, 0.002),
    Preset(20_000, 3_000, 128, 256, 0.3, 20, 64, 0.002),
    Preset(80_000, 6_000, 256, 320, 0.3, 20, 64, 0.003),
    Preset(400_000, 6_000, 192, 256, 0.1, 12, 128, 0.0025),
    Preset(4_000_000, 16_000, 512, 512, 0.2, 5, 128, 0.001),
    Preset(None, 32_000, 512, 1024, 0.1, 2, 128, 0.0007),
)
"""Rows two to four have the sizes of the recipes `starter`, `multi30k` and `tatoeba`. Row three is
trained like the 20 epochs of `multi30k` in docs/quality.md, row four like `tatoeba`. The other rows
are not measured."""

_LARGE = 1_000_000  # smallest number of pairs for a cache on disk and for frequent validation


@dataclass(frozen=True)
class ExaminedCorpus:
    """A corpus, a sample of its training pairs, their tokenizers, and a report of all splits."""

    data: DataConfig
    n_pairs: int
    sample: Sequence[SentencePair]
    tokenizers: Tokenizers
    report: Sequence[SplitReport]


def preset_for(n_pairs: int) -> Preset:
    return next(row for row in PRESETS if row.pair_limit is None or n_pairs < row.pair_limit)


def examine(data: DataConfig, is_order_known: bool) -> ExaminedCorpus:
    """Read and check the splits of `data`, and train tokenizers on a sample.

    Unless `is_order_known`, the languages of `data` are exchanged if the texts look swapped. Raises
    DataError if a file cannot be read as sentence pairs.
    """
    split = data.train
    assert split is not None
    n_pairs = sum(1 for _ in stream_split(split, data))
    sample = list(islice(stream_split(split, data), 0, None, max(1, -(-n_pairs // _SAMPLED))))
    texts = [pair.src_text for pair in sample], [pair.tgt_text for pair in sample]
    if not is_order_known and are_swapped(*texts, data.src_lang, data.tgt_lang):
        data = data.model_copy(update={"src_lang": data.tgt_lang, "tgt_lang": data.src_lang})
    n_words = min(len({word for text in side for word in text.split()}) for side in texts)
    size = min(preset_for(n_pairs).vocab_size, n_words // 200 * 100)
    tokenizers = _trained(size, data, sample)
    train = islice(stream_split(split, data), MAX_CHECKED)
    splits: dict[str, Iterable[SentencePair]] = {TRAIN: train}
    for name in ("valid", "test"):
        if (other := getattr(data, name)) is not None:
            splits[name] = pairs_of(read_examples(other, data))
    report = corpus_report(splits, data)
    return ExaminedCorpus(data, n_pairs, sample, tokenizers, report)


def _trained(size: int, data: DataConfig, sample: Sequence[SentencePair]) -> Tokenizers:
    """Train tokenizers of `size` pieces, or of the default size if `size` does not fit the text."""
    config = SentencePieceConfig(model_type="bpe", case="markup")
    languages = data.src_lang, data.tgt_lang
    if size >= _MIN_VOCAB:
        sized_config = config.model_copy(update={"vocab_size": size})
        with contextlib.suppress(ConfigError):
            return train_tokenizers(sized_config, sample, *languages, seed=1)
    return train_tokenizers(config, sample, *languages, seed=1)


def proposed_config(name: str, corpus: ExaminedCorpus) -> str:
    """Return the config for a corpus as YAML, with comments."""
    data, preset = corpus.data, preset_for(corpus.n_pairs)
    src_ids = corpus.tokenizers.src.encode_batch(pair.src_text for pair in corpus.sample)
    tgt_ids = corpus.tokenizers.tgt.encode_batch(pair.tgt_text for pair in corpus.sample)
    p99 = max(LengthStatistics.of(list(map(len, ids))).p99 for ids in (src_ids, tgt_ids))
    minimum, maximum = _MAX_PIECES
    max_pieces = min(maximum, max(minimum, -(-p99 // 10) * 10))
    splits = {key: getattr(data, key) for key in (TRAIN, "valid", "test")}
    n_sources = len({pair.src_text for pair in corpus.sample})
    n_held_out = max(1, min(_MAX_HELD_OUT, n_sources // _HELD_OUT_RATIO))
    held_out = {key: n_held_out for key, split in splits.items() if split is None}
    n_updates = preset.epochs * math.ceil(corpus.n_pairs / preset.batch_size)
    is_large = corpus.n_pairs >= _LARGE
    tokenizer = corpus.tokenizers.src.config
    pieces = tokenizer.model_dump(include={"kind", "model_type", "vocab_size", "case"})
    readout = {"kind": "deep", "size": preset.embedding, "activation": "tanh"}
    decoder = {"kind": "conditional", "initial_state": "mean", "readout": readout}
    schedule = {"kind": "cosine", "warmup": max(1, min(400, n_updates // 20))}
    lines = [
        f"name: {flow_yaml(name)}",
        "data:",
        f"  src_lang: {flow_yaml(data.src_lang)}",
        f"  tgt_lang: {flow_yaml(data.tgt_lang)}",
        *(
            f"  {key}: {flow_yaml(split.model_dump(mode='json', exclude_none=True))}"
            for key, split in splits.items()
            if split is not None
        ),
        f"  held_out: {flow_yaml(held_out)}  # sentences not trained on" if held_out else "",
        f"  max_pieces: {max_pieces}  # 99 % of the sentences have at most {p99}; longer "
        "pairs are left out and counted",
        "  cache: cache  # folder for the encoded text, instead of memory" if is_large else "",
        f"tokenizer: {flow_yaml(pieces)}  # markup: Word and WORD share the pieces of word",
        "model:",
        f"  embedding: {preset.embedding}",
        f"  hidden: {preset.hidden}  # a size for {corpus.n_pairs:,} pairs",
        f"  dropout: {preset.dropout}",
        f"  decoder: {flow_yaml(decoder)}",
        "  tie_embeddings: target",
        "train:",
        f"  epochs: {preset.epochs}",
        f"  batch_size: {preset.batch_size}",
        f"  lr: {preset.lr}",
        "  loss: {kind: cross_entropy, smoothing: 0.1}",
        "  precision: auto  # bf16 on devices where it is fast",
        f"  schedule: {flow_yaml(schedule)}",
        "valid:",
        "  every: 5000" if is_large else "",
        "  max_examples: 500  # sentences that are translated for BLEU at each validation",
        "search: {beam: 5}",
    ]
    return "".join(f"{line}\n" for line in lines if line)


def corpus_warnings(corpus: ExaminedCorpus) -> Iterator[str]:
    """Yield a message for each sign of a fault in the corpus."""
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
    """Return whether `nmt corpus clean` would leave out many pairs of a split."""
    return sum(split.left_out.values()) > _MESSY_SHARE * split.pairs

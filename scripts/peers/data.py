"""The same data for all: our pieces, separated by spaces, and one list of pieces per side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.corpora import read_examples, read_split
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.corpora.text_files import read_lines
from nmt.evaluation.metrics import corpus_bleu
from nmt.storage.output import write_lines
from nmt.text.normalisation import restore
from nmt.text.sentencepiece_tokenizer import SPACE_MARK, SentencePieceConfig
from nmt.text.tokenizer import Tokenizers, train_tokenizers
from nmt.text.vocabulary import RESERVED
from nmt.types import SentencePair

CORPUS = "multi30k-en-fr"


@dataclass(frozen=True)
class Exported:
    """The files in `folder`: {train,valid,test}.{src,tgt} in pieces, {train,valid,test}-text.*
    as text, vocab.{src,tgt} with a piece a line, without the reserved ones; and the sizes of the
    training set, whose ends of sentences count as pieces."""

    folder: Path
    pairs: int
    src_tokens: int
    tgt_tokens: int

    @property
    def both_by_target(self) -> float:
        """Source and target tokens for each target token."""
        return (self.src_tokens + self.tgt_tokens) / self.tgt_tokens

    def pieces(self, split: str, side: str) -> Path:
        return self.folder / f"{split}.{side}"

    def text(self, split: str, side: str) -> Path:
        return self.folder / f"{split}-text.{side}"

    def vocabulary(self, side: str) -> Path:
        return self.folder / f"vocab.{side}"


def export(folder: Path, vocabulary: int, seed: int) -> Exported:
    """Write Multi30k for all, without the training pairs that nmt leaves out as too long."""
    settings = DataConfig(corpus=CORPUS, folder=Path("data"))
    pairs = read_split(SplitConfig(corpus=CORPUS, split="train"), settings)
    config = SentencePieceConfig(model_type="bpe", vocab_size=vocabulary)
    tokenizers = train_tokenizers(config, pairs, settings.src_lang, settings.tgt_lang, seed)
    src = tokenizers.src.encode_batch([pair.src_text for pair in pairs])
    tgt = tokenizers.tgt.encode_batch([pair.tgt_text for pair in pairs])
    fit = [i for i, both in enumerate(zip(src, tgt, strict=True))
           if max(map(len, both)) <= settings.max_pieces]  # fmt: skip
    n_tokens = (sum(len(side[i]) + 1 for i in fit) for side in (src, tgt))
    exported = Exported(folder, len(fit), *n_tokens)
    folder.mkdir(parents=True, exist_ok=True)
    _write_split(exported, "train", [pairs[i] for i in fit], tokenizers)
    for split in ("valid", "test"):
        examples = read_examples(SplitConfig(corpus=CORPUS, split=split), settings)
        some = [SentencePair(example.src_text, example.ref_texts[0]) for example in examples]
        _write_split(exported, split, some, tokenizers)
    for side, tokenizer in (("src", tokenizers.src), ("tgt", tokenizers.tgt)):
        write_lines(tokenizer.vocab.pieces[len(RESERVED) :], exported.vocabulary(side), force=True)
    return exported


def _write_split(
    exported: Exported, split: str, pairs: Sequence[SentencePair], tokenizers: Tokenizers
) -> None:
    for side, tokenizer, texts in (
        ("src", tokenizers.src, [pair.src_text for pair in pairs]),
        ("tgt", tokenizers.tgt, [pair.tgt_text for pair in pairs]),
    ):
        write_lines(texts, exported.text(split, side), force=True)
        lines = (map(tokenizer.vocab.piece_of, ids) for ids in tokenizer.encode_batch(texts))
        write_lines(map(" ".join, lines), exported.pieces(split, side), force=True)


def text_of(pieces: str, lang: str) -> str:
    """The text, in the typography of `lang`, of a line of pieces separated by spaces."""
    return restore("".join(pieces.split()).replace(SPACE_MARK, " ").strip(), lang)


def bleu_of(lines: Sequence[str], references: Path) -> float:
    """BLEU (cased, 13a) of texts against one reference a line."""
    return corpus_bleu(lines, [(ref,) for ref in read_lines(references)[: len(lines)]])

"""The alignment error rate of trained runs on hand-aligned sentences, read in every way.

    NMT_CORPORA=corpora python scripts/alignment_error.py runs/family/*-1 --eflomal /tmp/eflomal

prints a Markdown table: a line for each run, a column for each shift without and with norms. The
gold data is a folder (--gold, or `alignments` in NMT_CORPORA) of stories.SRC, stories.TGT and
stories.SRC-TGT.ali, tokenised; README.md there says where it comes from.

--eflomal adds the yardstick: the folder into which `pip install --target FOLDER eflomal` put it (it
needs a C compiler). Statistics need more text than the gold sentences have, so the first run's
training pairs (--pairs N: the first of them) are aligned with them, tokenised and in lower case.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

from nmt.attention_maps.aligner import Aligner
from nmt.attention_maps.alignment import SYMMETRISATIONS, AlignmentScore, alignment_score
from nmt.attention_maps.pair_weights import Reading
from nmt.data.alignments import Gold, Links, stream_gold, stream_links
from nmt.data.corpora import stream_split
from nmt.data.text_files import stream_lines
from nmt.errors import DataError, NMTError
from nmt.evaluation.examples import split_named
from nmt.inference.translator import Translator
from nmt.runs.trained_run import TrainedRun
from nmt.text.normalisation import normalise
from nmt.text.word_tokenizer import split

READINGS = {
    f"shift {shift}{', norm' if by_norm else ''}": Reading(shift, by_norm)
    for by_norm, shift in product((False, True), range(3))
}

_ELISION = re.compile(r"\b([^\W\d_]{1,6}')(?=\w)")


@dataclass(frozen=True)
class GoldSet:
    """Tokenised sentence pairs with their links."""

    sources: Sequence[str]
    targets: Sequence[str]
    links: Sequence[Gold]

    @classmethod
    def read(cls, folder: Path, src_lang: str, tgt_lang: str) -> "GoldSet":
        """The set of a folder. Raises DataError where a file is missing or too short."""
        src, tgt = (list(stream_lines(folder / f"stories.{lang}")) for lang in (src_lang, tgt_lang))
        links = list(stream_gold(folder / f"stories.{src_lang}-{tgt_lang}.ali"))
        if not len(src) == len(tgt) == len(links):
            raise DataError(f"{folder}: the three files differ in their number of lines")
        return cls(src, tgt, links)

    def score(self, found: Sequence[Links]) -> AlignmentScore:
        """The score of links of all its pairs."""
        return alignment_score(found, self.links)


def errors_of(run: Path, gold: Path, checkpoint: str) -> dict[str, AlignmentScore]:
    """The score of a run by each reading."""
    trained = TrainedRun.open(run)
    data = trained.config.data
    gold_set = GoldSet.read(gold, data.src_lang, data.tgt_lang)
    translator = Translator.load(trained, "auto", checkpoint)
    return {
        name: gold_set.score(
            Aligner(translator, reading).align(gold_set.sources, gold_set.targets, tokenised=True)
        )
        for name, reading in READINGS.items()
    }


def tokens_of(text: str, lang: str) -> str:
    """A text as eflomal reads it: words and marks between spaces, elisions apart, lower case."""
    words = _ELISION.sub(r"\1 ", normalise(text, lang)) if lang == "fr" else normalise(text, lang)
    return " ".join(split(words)).lower()


def eflomal_errors(folder: Path, run: Path, gold: Path, n_pairs: int | None) -> AlignmentScore:
    """The score of eflomal in both directions, symmetrised by grow-diag-final-and.

    It aligns the gold sentences together with training pairs of the run. Raises DataError where
    eflomal cannot be run.
    """
    data = TrainedRun.open(run).config.data
    gold_set = GoldSet.read(gold, data.src_lang, data.tgt_lang)
    pairs = islice(stream_split(split_named(data, "train"), data), n_pairs)
    extra = [
        (tokens_of(pair.src_text, data.src_lang), tokens_of(pair.tgt_text, data.tgt_lang))
        for pair in pairs
    ]
    mine = [(src.lower(), tgt.lower()) for src, tgt in _gold_texts(gold_set)]
    both = [*mine, *((src, tgt) for src, tgt in extra if src and tgt)]
    with tempfile.TemporaryDirectory() as name:
        files = {side: Path(name) / side for side in ("src", "tgt", "forward", "reverse")}
        for side, texts in zip(("src", "tgt"), zip(*both, strict=True), strict=True):
            files[side].write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        _run_eflomal(folder, files)
        join = SYMMETRISATIONS["grow-diag-final-and"]
        directions = (stream_links(files["forward"]), stream_links(files["reverse"]))
        joined = [join(*each) for each in zip(*directions, strict=True)]
    return gold_set.score(joined[: len(mine)])


def _gold_texts(gold_set: GoldSet) -> Iterator[tuple[str, str]]:
    """The gold sentences, whose tokens stay as they are but for their apostrophes."""
    for pair in zip(gold_set.sources, gold_set.targets, strict=True):
        src, tgt = (text.replace("’", "'") for text in pair)
        yield src, tgt


def _run_eflomal(folder: Path, files: dict[str, Path]) -> None:
    options = {"-s": "src", "-t": "tgt", "-f": "forward", "-r": "reverse"}
    flags = [part for flag, side in options.items() for part in (flag, str(files[side]))]
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    program = [sys.executable, str(folder / "bin" / "eflomal-align"), *flags]
    done = subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise DataError(f"{folder}: eflomal-align ended with {done.returncode}: {reason}")


def main() -> int:
    """Measure and print; return 2 if the user's input was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--gold", type=Path, help="folder of the gold data")
    parser.add_argument("--checkpoint", default="best")
    parser.add_argument("--eflomal", type=Path, metavar="FOLDER", help="where it is installed")
    parser.add_argument("--pairs", type=int, help="training pairs for eflomal (all)")
    options = parser.parse_args()
    gold = options.gold or Path(os.environ.get("NMT_CORPORA", "."), "alignments")
    print(f"| run | {' | '.join(READINGS)} |\n|---|{'---:|' * len(READINGS)}")
    try:
        for run in options.runs:
            scores = errors_of(run, gold, options.checkpoint)
            cells = (f"{score.aer:.3f}" for score in scores.values())
            print(f"| {run.name} | {' | '.join(cells)} |", flush=True)
        if options.eflomal is not None:
            score = eflomal_errors(options.eflomal, options.runs[0], gold, options.pairs)
            print(f"\neflomal, grow-diag-final-and: {score.describe()}")
    except NMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""BLEU of translations when people type otherwise than the corpus does.

    .venv/bin/python scripts/disturb.py --run runs/multi30k --split valid

translates the sources of a split as they stand and in five disturbed forms, and scores each against
the unaltered references: tokenised lower-cased BLEU, cased BLEU, chrF. A disturbed
source does not reveal the capitals of the reference, so the first measure says most.

    capitals   THE WHOLE SENTENCE IN CAPITALS.
    lower      the whole sentence in lower case.
    no-stop    The full stop at the end is missing
    slip       Two neighbouring letters of one wrod are exchanged.
    typed      lower case, no full stop and a slpi

The choices for line N depend on --seed, the form and N only.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from measuring import markdown_table

from nmt.corpora.corpora import read_examples
from nmt.errors import NMTError
from nmt.evaluation.evaluate import Scoring, evaluate
from nmt.evaluation.examples import split_named
from nmt.runs.trained_run import TrainedRun
from nmt.translation.translator import Translator

MEASURES = {"multi30k": "BLEU lc tok", "bleu": "BLEU", "chrf": "chrF"}

MIN_LETTERS = 4
"""Letters of a word in which a slip is made; in shorter ones it often makes another word."""


def without_stop(text: str) -> str:
    """Return `text` without the marks that end a sentence."""
    return text.rstrip(" .!?…")


def with_slip(text: str, rng: random.Random) -> str:
    """Return `text` with two neighbouring, different letters of one word exchanged, if any."""
    words = text.split(" ")
    positions: dict[int, list[int]] = {}
    for number, word in enumerate(words):
        pairs = [i for i in range(len(word) - 1) if word[i].lower() != word[i + 1].lower()]
        if pairs and word.isalpha() and len(word) >= MIN_LETTERS:
            positions[number] = pairs
    if not positions:
        return text
    number, pairs = rng.choice(list(positions.items()))
    i, word = rng.choice(pairs), words[number]
    words[number] = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    return " ".join(words)


FORMS: dict[str, Callable[[str, random.Random], str]] = {
    "as it is": lambda text, _: text,
    "capitals": lambda text, _: text.upper(),
    "lower": lambda text, _: text.lower(),
    "no-stop": lambda text, _: without_stop(text),
    "slip": with_slip,
    "typed": lambda text, rng: with_slip(without_stop(text.lower()), rng),
}


def disturbed(texts: Sequence[str], form: str, seed: int) -> list[str]:
    change = FORMS[form]
    return [change(text, random.Random(f"{seed}/{form}/{n}")) for n, text in enumerate(texts, 1)]


def measure(options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield each form with its scores by MEASURES."""
    run = TrainedRun.open(options.run)
    examples = read_examples(split_named(run.config.data, options.split), run.config.data)
    translator = Translator.load(run, checkpoint=options.checkpoint)
    scoring = Scoring(run.config.data.tgt_lang, tuple(MEASURES), n_bootstrap=0)
    for form in options.form:
        texts = disturbed([example.src_text for example in examples], form, options.seed)
        changed = [replace(e, src_text=text) for e, text in zip(examples, texts, strict=True)]
        scores = evaluate(translator, changed, scoring).scores
        yield [form, *(f"{scores[key].score:.2f}" for key in MEASURES)]


def main() -> int:
    """Print the table; return 2 where the user's input was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="a run directory")
    parser.add_argument("--checkpoint", default="best", help="best, last or step-N")
    parser.add_argument("--split", default="valid", help="a split of the run's corpus")
    parser.add_argument("--form", choices=FORMS, nargs="+", default=list(FORMS))
    parser.add_argument("--seed", type=int, default=1, help="seed of the slips")
    try:
        rows = list(measure(parser.parse_args()))
    except NMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(markdown_table(["source", *MEASURES.values()], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

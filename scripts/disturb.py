"""BLEU of translations when people type otherwise than the corpus does.

    .venv/bin/python scripts/disturb.py --run runs/multi30k --split valid

translates the sources of a split as they stand and in disturbed forms, and scores each against the
references: tokenised lower-cased BLEU, cased BLEU, chrF. A disturbed source does not reveal the
capitals of the reference, so the first measure says most.

    capitals   THE WHOLE SENTENCE IN CAPITALS.
    lower      the whole sentence in lower case.
    no-stop    The full stop at the end is missing
    slip       Two neighbouring letters of one wrod are exchanged.
    typed      lower case, no full stop and a slpi
    keyboard   One letter of a word is its neighbpur on a QWERTY keyboard.
    accents    Letters lose their accents: deja vu.
    number     A number ends the sentence, and the reference too. (1,234)
    emoji      An emoji ends the sentence, and the reference too. 🎉
    merged     The next sentence follows. It does so in the reference too.

The last column is the number of lost numbers (nmt/evaluation/counts.py).
The choices for line N depend on SEED, the form and N only.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unicodedata import combining, normalize

from measuring import markdown_table

from nmt.corpora.corpora import read_examples
from nmt.errors import NMTError
from nmt.evaluation.evaluate import Scoring, evaluate
from nmt.evaluation.examples import find_split
from nmt.runs.trained_run import TrainedRun
from nmt.text.noise import KEYBOARD_NEIGHBOURS
from nmt.translation.translator import Translator
from nmt.types import EvalExample

MEASURES = {"multi30k": "BLEU lc tok", "bleu": "BLEU", "chrf": "chrF"}

SEED = 1
NUMBERS = ("7", "42", "3.5", "18:10", "2016", "1,234")
EMOJI = ("🎉", "😀", "❤️", "👍🏽", "🚲")

MARKS = " .!?…"

MIN_LETTERS = 4
"""Letters of a word in which a slip is made; in shorter ones it often makes another word."""


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


def with_neighbour(text: str, rng: random.Random) -> str:
    """Return `text` with one letter replaced by a neighbour on a QWERTY keyboard, if any."""
    positions = [i for i, char in enumerate(text) if char.lower() in KEYBOARD_NEIGHBOURS]
    if not positions:
        return text
    i = rng.choice(positions)
    letter = rng.choice(KEYBOARD_NEIGHBOURS[text[i].lower()])
    return text[:i] + (letter.upper() if text[i].isupper() else letter) + text[i + 1 :]


FORMS: dict[str, Callable[[str, random.Random], str]] = {
    "as it is": lambda text, _: text,
    "capitals": lambda text, _: text.upper(),
    "lower": lambda text, _: text.lower(),
    "no-stop": lambda text, _: text.rstrip(MARKS),
    "slip": with_slip,
    "typed": lambda text, rng: with_slip(text.lower().rstrip(MARKS), rng),
    "keyboard": with_neighbour,
    "accents": lambda text, _: "".join(c for c in normalize("NFD", text) if not combining(c)),
    "number": lambda text, rng: f"{text} ({rng.choice(NUMBERS)})",
    "emoji": lambda text, rng: f"{text} {rng.choice(EMOJI)}",
}
BOTH_SIDES = ("number", "emoji")
"""Forms whose change is made in the references too."""


def changed(text: str, form: str, seed: int, number: int) -> str:
    """Return `text`, of line `number`, in a form of FORMS."""
    return FORMS[form](text, random.Random(f"{seed}/{form}/{number}"))


def disturbed(texts: Sequence[str], form: str, seed: int) -> list[str]:
    if form == "merged":
        return [" ".join(pair) for pair in zip(texts, [*texts[1:], *texts[:1]], strict=True)]
    return [changed(text, form, seed, n) for n, text in enumerate(texts, 1)]


def disturbed_examples(examples: Sequence[EvalExample], form: str, seed: int) -> list[EvalExample]:
    """Return the examples with disturbed sources, and references if they change alike."""
    sources = disturbed([example.src_text for example in examples], form, seed)
    refs = [example.ref_texts for example in examples]
    if form == "merged":
        pairs = zip(refs, [*refs[1:], *refs[:1]], strict=True)
        refs = [tuple(map(" ".join, zip(*pair, strict=False))) for pair in pairs]
    elif form in BOTH_SIDES:
        rows = enumerate(refs, 1)
        refs = [tuple(changed(text, form, seed, n) for text in texts) for n, texts in rows]
    return list(map(EvalExample, sources, refs))


def measure(options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield each form with its scores by MEASURES and its lost numbers."""
    run = TrainedRun.open(options.run)
    examples = read_examples(find_split(run.config.data, options.split), run.config.data)
    translator = Translator.load(run)
    scoring = Scoring(run.config.data.tgt_lang, tuple(MEASURES), n_bootstrap=0)
    for form in (*FORMS, "merged"):
        evaluation = evaluate(translator, disturbed_examples(examples, form, SEED), scoring)
        scores = (f"{evaluation.scores[key].score:.2f}" for key in MEASURES)
        lost = len(evaluation.counts["lost_numbers"].faults)
        yield [form, *scores, str(lost)]


def main() -> int:
    """Print the table; return 2 where the user's input was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="a run directory")
    parser.add_argument("--split", default="valid", help="a split of the run's corpus")
    try:
        rows = list(measure(parser.parse_args()))
    except NMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(markdown_table(["source", *MEASURES.values(), "numbers lost"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

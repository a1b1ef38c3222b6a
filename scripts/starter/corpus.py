"""Generates the pairs, splits them by a hash of the English sentence, writes the files."""

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from starter import english, french
from starter.french_verbs import table_lines
from starter.lexicon import Dealer
from starter.templates import fill

HERE = Path(__file__).parent
N_VALID, N_TEST = 500, 500
MIN_IN_TRAIN = 5  # every word of valid and test stands at least so often in train
MIN_WORDS, MAX_WORDS = 2, 20


class Pair(NamedTuple):
    """An English sentence, its French translation and the pattern they come from."""

    en: str
    fr: str
    origin: str


def words(sentence: str) -> list[str]:
    """Return the lower-cased words; apostrophes and hyphens part them."""
    return re.findall(r"\w+", sentence.lower())


def n_words(sentence: str) -> int:
    """Count the words as they are written, between spaces."""
    return sum(1 for chunk in sentence.split() if re.search(r"\w", chunk))


def folded(sentence: str) -> str:
    """Return the form under which two sentences count as the same."""
    return " ".join(sentence.casefold().split())


def handwritten() -> list[Pair]:
    """Return the pairs written one by one."""
    sides = (line.split("\t") for line in table_lines(HERE / "handwritten.tsv"))
    return [Pair(en, french.finish(fr), "handwritten") for en, fr in sides]


def patterns() -> list[tuple[int, str, tuple[str, str]]]:
    """Return (most pairs, class of the subject, both templates) of each pattern."""
    found = []
    for line in table_lines(HERE / "patterns.tsv"):
        most, subject, en, fr = (field.strip() for field in line.split(" | "))
        found.append((int(most), subject, (en, en if fr == "=" else fr)))
    return found


class Collector:
    """Keeps the pairs whose English, French and length are all admissible."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self._seen: set[str] = set()

    def add(self, pair: Pair) -> bool:
        """Keep `pair` unless either side is there already or has too few or too many words."""
        keys = {"en " + folded(pair.en), "fr " + folded(pair.fr)}
        lengths = (n_words(pair.en), n_words(pair.fr))
        if keys & self._seen or min(lengths) < MIN_WORDS or max(lengths) > MAX_WORDS:
            return False
        self._seen |= keys
        self.pairs.append(pair)
        return True


def generate() -> list[Pair]:
    """Return all pairs: those written one by one first, then those of each pattern."""
    collector = Collector()
    for pair in handwritten():
        if not collector.add(pair):
            raise ValueError(f"written twice, too short or too long: {pair}")
    for most, subject, templates in patterns():
        dealer = Dealer(templates[0])
        n_added = 0
        for _ in range(most * 6):
            drawn: dict[str, Any] = {}
            drawn["S"] = dealer.draw(subject, drawn)
            en, fr = fill(templates, drawn, dealer)
            n_added += collector.add(Pair(english.finish(en), french.finish(fr), templates[0]))
            if n_added == most:
                break
    return collector.pairs


def _digest(pair: Pair) -> str:
    return hashlib.sha256(pair.en.encode()).hexdigest()


def split(pairs: list[Pair]) -> dict[str, list[Pair]]:
    """Return train, valid and test; a pair leaves train only if all its words stay frequent."""
    counts = Counter(w for pair in pairs for w in _keyed_words(pair))
    chosen: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    for pair in sorted(pairs, key=_digest):
        needed = Counter(_keyed_words(pair))
        full = len(chosen["test"]) == N_TEST and len(chosen["valid"]) == N_VALID
        if full or any(counts[w] - n < MIN_IN_TRAIN for w, n in needed.items()):
            chosen["train"].append(pair)
            continue
        counts -= needed
        smaller = len(chosen["test"]) <= len(chosen["valid"])
        chosen["test" if smaller and len(chosen["test"]) < N_TEST else "valid"].append(pair)
    return chosen


def _keyed_words(pair: Pair) -> list[str]:
    return ["en " + w for w in words(pair.en)] + ["fr " + w for w in words(pair.fr)]


def render(splits: dict[str, list[Pair]]) -> dict[str, str]:
    """Return the content of each corpus file by name."""
    files = {}
    for name, pairs in splits.items():
        files[f"{name}.en"] = "".join(pair.en + "\n" for pair in pairs)
        files[f"{name}.fr"] = "".join(pair.fr + "\n" for pair in pairs)
    return files


def build(pairs: list[Pair]) -> dict[str, str]:
    """Return the content of every generated file of data/starter."""
    splits = split(pairs)
    return render(splits) | {"README.md": readme(pairs, splits)}


def _sides(pairs: list[Pair]) -> tuple[list[str], list[str]]:
    return [pair.en for pair in pairs], [pair.fr for pair in pairs]


def _table_row(name: str, pairs: list[Pair]) -> str:
    cells = [name, f"{len(pairs):,}"]
    for side in _sides(pairs):
        cells.append(f"{len({word for sentence in side for word in words(sentence)}):,}")
    for side in _sides(pairs):
        lengths = [n_words(sentence) for sentence in side]
        cells.append(f"{min(lengths)} to {max(lengths)}, {sum(lengths) / len(lengths):.1f}")
    return "| " + " | ".join(cells) + " |"


def readme(pairs: list[Pair], splits: dict[str, list[Pair]]) -> str:
    """Return README.md with the counts of this build."""
    rows = [_table_row(name, splits[name]) for name in ("train", "valid", "test")]
    origins = Counter(pair.origin for pair in pairs)
    n_handwritten = origins.pop("handwritten")
    text = (HERE / "README.template.md").read_text(encoding="utf-8")
    return (
        text.replace("TABLE", "\n".join([*rows, _table_row("all", pairs)]))
        .replace("N_HANDWRITTEN", str(n_handwritten))
        .replace("N_PATTERNS", str(len(origins)))
        .replace("SHARE", f"{100 * max(origins.values()) / len(pairs):.1f}")
    )

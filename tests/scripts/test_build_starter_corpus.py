"""Laws of the starter corpus: what is tracked is what the script builds, and it is right."""

import re
from collections import Counter
from pathlib import Path

import pytest
from starter import corpus, english, french, lexicon
from starter import french_verbs as verbs

FOLDER = Path(__file__).resolve().parents[2] / "data" / "starter"
SPLITS = ("train", "valid", "test")
VOWEL = "[aeiouâàéèêëîïôöùûœ]"


def read(name: str) -> list[str]:
    text = (FOLDER / name).read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def test_a_rebuild_equals_the_tracked_files_and_no_pattern_dominates() -> None:
    pairs = corpus.generate()
    for name, content in corpus.build(pairs).items():
        assert (FOLDER / name).read_bytes() == content.encode("utf-8"), name
    origins = Counter(pair.origin for pair in pairs)
    assert origins.pop("handwritten") >= 300
    assert len(origins) >= 60
    assert max(origins.values()) <= 0.05 * len(pairs)


@pytest.mark.parametrize("lang", ["en", "fr"])
def test_splits_are_apart_and_their_words_known(lang: str) -> None:
    splits = {split: read(f"{split}.{lang}") for split in SPLITS}
    assert [len(splits[split]) for split in SPLITS] == [len(read(f"{s}.en")) for s in SPLITS]
    assert len(splits["valid"]) == len(splits["test"]) == 500
    assert 11_000 <= len(splits["train"]) <= 14_000
    lines = [line for split in SPLITS for line in splits[split]]
    assert len({corpus.folded(line) for line in lines}) == len(lines)  # in no two splits either
    counts = Counter(word for line in splits["train"] for word in corpus.words(line))
    assert len(counts) >= 1500
    for line in splits["valid"] + splits["test"]:
        assert all(counts[word] >= 5 for word in corpus.words(line)), line
    for line in lines:
        assert 2 <= sum(1 for chunk in line.split() if re.search(r"\w", chunk)) <= 20
        assert line[0].isupper() or line[0].isdigit(), line
        assert line[-1] in ".?!", line


def noun_slots(template: str) -> set[str]:
    names = re.findall(r"\{([\w+]+)(?:\.\w+)?(?::[^}]*)?\}", template)
    return {name for name in names if not name.startswith(("v_", "a_", "S", "T"))}


def test_both_sides_of_a_pattern_draw_the_same_words() -> None:
    """Pronouns aside: they are a word in English and an option of the verb in French."""
    for _, _, (en, fr) in corpus.patterns():
        assert noun_slots(en) - {"third_pron", "me"} == noun_slots(fr), en
    for _, _, en, _, fr in lexicon.rows("actions.tsv"):
        assert noun_slots(en) == noun_slots(fr), en


FAULTS = {
    "elision": rf"\b(?<!-)(je|me|te|se|ne|de|que|jusque|lorsque|puisque) {VOWEL}(?!nz|ui\b)",
    "article": rf"(?<![-’\w])(le|la) {VOWEL}(?!nz|ui\b)",
    "s’il, c’est": r"\bsi ils?\b|\bce (est|était)\b",
    "possessive": rf"\b(ma|ta|sa|ce) {VOWEL}",
    "du, des": r"\bde les? (?!\w+(er|ir|re|oir)\b)",
    "au, aux": r"\bà les? \b",
    "article twice": r"\b(le|la|les|un|une|des|du) (le|la|les|un|une|des|du)\b",
    "aspirated h": r"[ldnjs]’(h[aéi](?!b|er|v|st)|hibou)",
    "apostrophe, slots, spaces": r"'|[{}|_]|  |\s[.,]",
    "punctuation": r"[^\u202f][?!;]|[^\u00a0]:|[\u202f\u00a0](?![?!;:])",
}


def test_nothing_breaks_a_law_of_spelling() -> None:
    lines = [line for split in SPLITS for line in read(f"{split}.fr")]
    for law, fault in FAULTS.items():
        assert not [line for line in lines if re.search(fault, line, re.IGNORECASE)][:5], law
    article = re.compile(r"\ba [aeio]\w|\ban [^aeiouh]|[{}|_’]|  ", re.IGNORECASE)
    assert not [line for split in SPLITS for line in read(f"{split}.en") if article.search(line)]


@pytest.mark.parametrize(
    ("verb", "tense", "forms"),
    [
        ("manger", "present", "mange manges mange mangeons mangez mangent"),
        ("acheter", "future", "achèterai achèteras achètera achèterons achèterez achèteront"),
        ("jeter", "future", "jetterai jetteras jettera jetterons jetterez jetteront"),
        ("étudier", "imperfect", "étudiais étudiais étudiait étudiions étudiiez étudiaient"),
        ("finir", "present", "finis finis finit finissons finissez finissent"),
        ("vendre", "present", "vends vends vend vendons vendez vendent"),
        ("avoir", "conditional", "aurais aurais aurait aurions auriez auraient"),
    ],
)
def test_conjugation(verb: str, tense: str, forms: str) -> None:
    assert [verbs.conjugate(verb, tense, person) for person in range(6)] == forms.split()


def test_agreement_and_plurals() -> None:
    for adjective, forms in {
        "vieux": "vieux vieille vieux vieilles",
        "frais": "frais fraîche frais fraîches",
        "marron": "marron marron marron marron",
        "musicien": "musicien musicienne musiciens musiciennes",
    }.items():
        cases = [(feminine, plural) for plural in (False, True) for feminine in (False, True)]
        assert [french.agree(adjective, *case) for case in cases] == forms.split()
    for one, many in {"cheval": "chevaux", "pomme de terre": "pommes de terre"}.items():
        assert french.plural(one) == many
    assert (english.plural("box"), english.plural("boy")) == ("boxes", "boys")
    group = english.verb_group(("go home", "went home", "gone home"), "past", 0, "not")
    assert " ".join(group.split()) == "did not go home"

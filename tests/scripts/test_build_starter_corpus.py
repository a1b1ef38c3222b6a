"""Laws of the starter corpus: what is tracked is what the script builds, and it is right."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from starter import actions, corpus, english, french, lexicon, words
from starter import french_verbs as verbs

ROOT = Path(__file__).resolve().parents[2]

FOLDER = ROOT / "data" / "starter"
SPLITS = ("train", "valid", "test")
VOWEL = "[aeiouâàéèêëîïôöùûœ]"


def read(name: str) -> list[str]:
    text = (FOLDER / name).read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


@pytest.fixture(scope="module")
def french_lines() -> list[str]:
    return [line for split in SPLITS for line in read(f"{split}.fr")]


@pytest.fixture(scope="module")
def english_lines() -> list[str]:
    return [line for split in SPLITS for line in read(f"{split}.en")]


# -- the files


@pytest.fixture(scope="module")
def pairs() -> list[corpus.Pair]:
    return corpus.generate()


def test_a_rebuild_equals_the_tracked_files(pairs: list[corpus.Pair]) -> None:
    for name, content in corpus.build(pairs).items():
        assert (FOLDER / name).read_bytes() == content.encode("utf-8"), name


def test_sizes() -> None:
    sizes = {split: len(read(f"{split}.en")) for split in SPLITS}
    assert sizes == {split: len(read(f"{split}.fr")) for split in SPLITS}
    assert sizes["valid"] == sizes["test"] == 500
    assert 11_000 <= sizes["train"] <= 14_000


@pytest.mark.parametrize("lang", ["en", "fr"])
def test_no_sentence_stands_in_two_splits(lang: str) -> None:
    seen: set[str] = set()
    for split in SPLITS:
        lines = {" ".join(line.casefold().split()) for line in read(f"{split}.{lang}")}
        assert not seen & lines
        seen |= lines


def test_every_sentence_is_distinct(english_lines: list[str], french_lines: list[str]) -> None:
    for lines in (english_lines, french_lines):
        assert len({corpus.folded(line) for line in lines}) == len(lines)


@pytest.mark.parametrize("lang", ["en", "fr"])
def test_word_types_and_lengths(lang: str) -> None:
    lines = [line for split in SPLITS for line in read(f"{split}.{lang}")]
    assert len({word for line in lines for word in corpus.words(line)}) >= 1500
    lengths = [sum(1 for chunk in line.split() if re.search(r"\w", chunk)) for line in lines]
    assert min(lengths) >= 2
    assert max(lengths) <= 20


@pytest.mark.parametrize("lang", ["en", "fr"])
def test_words_of_valid_and_test_are_known(lang: str) -> None:
    counts: dict[str, int] = {}
    for line in read(f"train.{lang}"):
        for word in corpus.words(line):
            counts[word] = counts.get(word, 0) + 1
    for split in ("valid", "test"):
        for line in read(f"{split}.{lang}"):
            assert all(counts.get(word, 0) >= 5 for word in corpus.words(line)), line


def test_no_pattern_makes_more_than_five_percent(pairs: list[corpus.Pair]) -> None:
    origins: dict[str, int] = {}
    for pair in pairs:
        origins[pair.origin] = origins.get(pair.origin, 0) + 1
    assert origins.pop("handwritten") >= 300
    assert len(origins) >= 60
    assert max(origins.values()) <= 0.05 * len(pairs)


def noun_slots(template: str) -> set[str]:
    names = re.findall(r"\{([\w+]+)(?:\.\w+)?(?::[^}]*)?\}", template)
    return {name for name in names if not name.startswith(("v_", "a_", "S", "T"))}


def test_both_sides_of_a_pattern_draw_the_same_words() -> None:
    """Pronouns aside: they are a word in English and an option of the verb in French."""
    for _, _, (en, fr) in corpus.patterns():
        assert noun_slots(en) - {"third_pron", "me"} == noun_slots(fr), en
    for _, _, en, _, fr in lexicon.rows("actions.tsv"):
        assert noun_slots(en) == noun_slots(fr), en


# -- the French


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        ("elision", rf"\b(?<!-)(je|me|te|se|ne|de|que|jusque|lorsque|puisque) {VOWEL}(?!nz|ui\b)"),
        ("article", rf"(?<![-’\w])(le|la) {VOWEL}(?!nz|ui\b)"),
        ("mute h", r"(?<![-\w])(le|la|de|ne|je|que) (h[oô]|habit|heure|herbe|hier|hiver|huile)"),
        ("s’il", r"\bsi ils?\b"),
        ("c’est", r"\bce (est|était)\b"),
        ("possessive", rf"\b(ma|ta|sa) {VOWEL}"),
        ("this", rf"\bce {VOWEL}"),
        ("liaison adjective", rf"\b(beau|nouveau|vieux) (?!et\b|à\b|en\b|au){VOWEL}\w* "),
        ("du", r"\bde le (?!\w+(er|ir|re|oir)\b)"),
        ("des", r"\bde les (?!\w+(er|ir|re|oir)\b)"),
        ("au", r"\bà le \b"),
        ("aux", r"\bà les \b"),
        ("article twice", r"\b(le|la|les|un|une|des|du) (le|la|les|un|une|des|du)\b"),
        ("aspirated h", r"[ldnjs]’(h[aéi](?!b|er|v|st)|hibou)"),
        ("plain apostrophe", r"'"),
        ("old slots", r"[{}|_]"),
        ("double space", r"  "),
    ],
)
def test_nothing_breaks_a_law_of_spelling(law: str, wrong: str, french_lines: list[str]) -> None:
    found = [line for line in french_lines if re.search(wrong, line, re.IGNORECASE)]
    assert not found, (law, found[:5])


def test_spaces_before_punctuation(french_lines: list[str]) -> None:
    for line in french_lines:
        assert not re.search(r"[^\u202f][?!;]", line), line
        assert not re.search(r"[^\u00a0]:", line), line
        assert not re.search(r"[\u202f\u00a0](?![?!;:])", line), line
        assert not re.search(r"\s[.,]", line), line


def test_sentences_begin_and_end_as_sentences(
    english_lines: list[str], french_lines: list[str]
) -> None:
    for line in english_lines + french_lines:
        assert line[0].isupper() or line[0].isdigit(), line
        assert line[-1] in ".?!", line


def test_english_articles_and_forms(english_lines: list[str]) -> None:
    wrong = re.compile(
        r"\ba [aeio]\w|\ba (?!one|uni|use|Euro)u[a-z]|\ban [^aeiouh]"
        r"|\b(he|she|it) (do|have|are|go)\b|\b(I|you|we|they) (does|has|is)\b"
        r"|\bdid(n't| not)? (?!feed|need)\w+ed\b|[{}|_’]|  ",
        re.IGNORECASE,
    )
    bare = re.compile(
        r"\b(do|does|did|will|must|can|should|would) (he|she|it|they|you|I) \w+", re.I
    )
    for line in english_lines:
        assert bare.search(line) or not wrong.search(line), line


def test_negation_surrounds_the_verb(french_lines: list[str]) -> None:
    second = re.compile(
        r"\b(pas|jamais|plus|rien|personne|que|qu|ni|aucun|aucune|nulle)\b", re.IGNORECASE
    )
    for line in french_lines:
        if re.search(r"(?<![\w-])(ne |n’)", line, re.IGNORECASE):
            assert second.search(line), line


# -- the morphology


@pytest.mark.parametrize(
    ("verb", "tense", "forms"),
    [
        ("parler", "present", "parle parles parle parlons parlez parlent"),
        ("manger", "present", "mange manges mange mangeons mangez mangent"),
        ("manger", "imperfect", "mangeais mangeais mangeait mangions mangiez mangeaient"),
        ("commencer", "imperfect", "commençais commençais commençait commencions commenciez "
                                   "commençaient"),
        ("acheter", "present", "achète achètes achète achetons achetez achètent"),
        ("acheter", "future", "achèterai achèteras achètera achèterons achèterez achèteront"),
        ("préférer", "present", "préfère préfères préfère préférons préférez préfèrent"),
        ("espérer", "future", "espérerai espéreras espérera espérerons espérerez espéreront"),
        ("appeler", "present", "appelle appelles appelle appelons appelez appellent"),
        ("jeter", "future", "jetterai jetteras jettera jetterons jetterez jetteront"),
        ("nettoyer", "present", "nettoie nettoies nettoie nettoyons nettoyez nettoient"),
        ("envoyer", "future", "enverrai enverras enverra enverrons enverrez enverront"),
        ("étudier", "imperfect", "étudiais étudiais étudiait étudiions étudiiez étudiaient"),
        ("finir", "present", "finis finis finit finissons finissez finissent"),
        ("finir", "imperfect", "finissais finissais finissait finissions finissiez finissaient"),
        ("vendre", "present", "vends vends vend vendons vendez vendent"),
        ("vendre", "future", "vendrai vendras vendra vendrons vendrez vendront"),
        ("apprendre", "present", "apprends apprends apprend apprenons apprenez apprennent"),
        ("être", "imperfect", "étais étais était étions étiez étaient"),
        ("être", "future", "serai seras sera serons serez seront"),
        ("avoir", "conditional", "aurais aurais aurait aurions auriez auraient"),
        ("vouloir", "conditional", "voudrais voudrais voudrait voudrions voudriez voudraient"),
        ("revenir", "future", "reviendrai reviendras reviendra reviendrons reviendrez reviendront"),
        ("boire", "imperfect", "buvais buvais buvait buvions buviez buvaient"),
        ("faire", "present", "fais fais fait faisons faites font"),
        ("écrire", "imperfect", "écrivais écrivais écrivait écrivions écriviez écrivaient"),
        ("courir", "future", "courrai courras courra courrons courrez courront"),
        ("asseoir", "present", "assieds assieds assied asseyons asseyez asseyent"),
        ("peindre", "present", "peins peins peint peignons peignez peignent"),
    ],
)  # fmt: skip
def test_conjugation(verb: str, tense: str, forms: str) -> None:
    assert [verbs.conjugate(verb, tense, person) for person in range(6)] == forms.split()


def test_imperatives_and_participles() -> None:
    assert verbs.imperative("manger", 1) == "mange"
    assert verbs.imperative("ouvrir", 1) == "ouvre"
    assert verbs.imperative("aller", 1) == "va"
    assert verbs.imperative("finir", 1) == "finis"
    assert verbs.imperative("être", 4) == "soyez"
    assert verbs.participle("mettre", feminine=True, plural=True) == "mises"
    assert verbs.participle("mettre", plural=True) == "mis"
    assert verbs.participle("devoir", feminine=True) == "due"
    assert verbs.participle("comprendre", feminine=True) == "comprise"
    with pytest.raises(KeyError, match="no rule"):
        verbs.paradigm("blablu")
    with pytest.raises(KeyError, match="no simple tense"):
        verbs.conjugate("aller", "aorist", 0)


@pytest.mark.parametrize(
    ("adjective", "forms"),
    [
        ("petit", "petit petite petits petites"),
        ("beau", "beau belle beaux belles"),
        ("vieux", "vieux vieille vieux vieilles"),
        ("heureux", "heureux heureuse heureux heureuses"),
        ("blanc", "blanc blanche blancs blanches"),
        ("frais", "frais fraîche frais fraîches"),
        ("cher", "cher chère chers chères"),
        ("gentil", "gentil gentille gentils gentilles"),
        ("sportif", "sportif sportive sportifs sportives"),
        ("marron", "marron marron marron marron"),
        ("musicien", "musicien musicienne musiciens musiciennes"),
        ("agriculteur", "agriculteur agricultrice agriculteurs agricultrices"),
        ("trop long", "trop long|trop longue|trop longs|trop longues"),
    ],
)
def test_agreement_of_adjectives(adjective: str, forms: str) -> None:
    cases = [(f, p) for p in (False, True) for f in (False, True)]
    expected = forms.split("|") if "|" in forms else forms.split()
    assert [french.agree(adjective, f, p) for f, p in cases] == expected


def test_plural_of_nouns() -> None:
    for one, many in (("cheval", "chevaux"), ("bureau", "bureaux"), ("genou", "genoux"),
                      ("souris", "souris"), ("pomme de terre", "pommes de terre"),
                      ("carte postale", "cartes postales"), ("feu", "feux")):  # fmt: skip
        assert french.plural(one) == many
    for one, many in (("box", "boxes"), ("strawberry", "strawberries"), ("boy", "boys")):
        assert english.plural(one) == many


# -- noun phrases and clauses


def noun(english_name: str) -> words.Noun:
    found = lexicon.load()["n_" + english_name][0]
    assert isinstance(found, words.Noun)
    return found


def adjective(english_name: str) -> words.Adjective:
    found = lexicon.load()["a_" + english_name][0]
    assert isinstance(found, words.Adjective)
    return found


def described(noun_name: str, adjective_name: str) -> words.Noun:
    return replace(noun(noun_name), adjective=adjective(adjective_name))


def test_noun_phrases() -> None:
    assert french.elide(noun("school").french("the", "my")) == "l’école"
    assert french.elide(noun("school").french("to the", "my")) == "à l’école"
    assert noun("park").french("to the", "my") == "au parc"
    assert noun("park").french("of the", "my") == "du parc"
    assert noun("eye").pl.french("to the", "my") == "aux yeux"
    assert noun("scarf").french("my", "my") == "mon écharpe"
    assert noun("umbrella").french("this", "my") == "ce parapluie"
    assert noun("tree").french("this", "my") == "cet arbre"
    assert described("tree", "old").french("a", "my") == "un vieil arbre"
    assert described("tree", "old").pl.french("a", "my") == "de vieux arbres"
    assert described("dress", "red").pl.french("the", "my") == "les robes rouges"
    assert noun("water").french("some", "my") == "de l’eau"
    assert french.elide(noun("water").french("some", "my", negated=True)) == "d’eau"
    assert noun("owl").french("the", "my") == "le hibou"
    assert french.elide(noun("owl").french("the", "my")) == "le hibou"
    assert described("apple", "red").english("a", "my") == "a red apple"
    assert noun("umbrella").english("a", "my") == "an umbrella"
    with pytest.raises(ValueError, match="partitive"):
        french.with_preposition("de", "du pain")


SHE = words.Subject("she", "elle", 2, True, True)
THEY = words.Subject("they", "ils", 5, False, True)
I = words.Subject("I", "je", 0, False, True)  # noqa: E741
YOU = words.Subject("you", "tu", 1, False, True)


def said(verb: str, tense: str, subject: words.Subject, **rest: object) -> str:
    action = actions.Action("", "", "", "", verb, "")
    use = actions.Conjugation(tense, subject, **rest)  # type: ignore[arg-type]
    return french.elide(action.french(use))


def test_compound_tenses_agree() -> None:
    letter, flowers = noun("letter"), noun("flower").pl
    assert said("partir", "past", SHE) == "est partie"
    assert said("se lever", "past", THEY) == "se sont levés"
    assert said("se* laver", "past", SHE) == "s’est lavé"
    assert said("écrire", "past", SHE) == "a écrit"
    assert said("écrire", "past", SHE, objects=(letter,)) == "l’a écrite"
    assert said("cueillir", "past", SHE, objects=(flowers,)) == "les a cueillies"
    assert said("écrire", "past", SHE, before=(letter,)) == "a écrite"
    assert said("écrire", "past", SHE, indirect=(THEY,)) == "leur a écrit"
    assert said("perdre", "pluperf", SHE, objects=(letter,)) == "l’avait perdue"


def test_pronouns_and_negation_take_their_place() -> None:
    letter = noun("letter")
    assert said("voir", "present", I, negation="pas", objects=(SHE,)) == "ne la vois pas"
    assert said("voir", "past", I, negation="jamais", objects=(THEY,)) == "ne les ai jamais vus"
    assert said("aller", "past", I, negation="pas encore") == "ne suis pas encore allé"
    assert said("lire", "going", I, objects=(letter,)) == "vais la lire"
    assert said("lire", "just", I, objects=(letter,)) == "viens de la lire"
    assert said("manger", "fut", I, negation="pas") == "ne mangerai pas"
    assert said("se coucher", "inf", I) == "me coucher"
    assert said("lire", "imp", YOU, objects=(letter,)) == "lis-la"
    assert said("lire", "imp", YOU, negation="pas", objects=(letter,)) == "ne la lis pas"
    assert said("se lever", "imp", YOU) == "lève-toi"
    assert said("se lever", "imp", YOU, negation="pas") == "ne te lève pas"
    assert said("lire", "lets", I, objects=(letter,)) == "lisons-la"
    assert said("manger", "present", I, negation="pas", adverb="souvent") == "ne mange pas souvent"


def test_inversion() -> None:
    def asked(verb: str, tense: str, subject: words.Subject) -> str:
        action = actions.Action("", "", "", "", verb, "")
        return french.elide(action.inverted(actions.Conjugation(tense, subject)))

    assert asked("manger", "present", SHE) == "mange-t-elle"
    assert asked("vendre", "present", SHE) == "vend-elle"
    assert asked("finir", "past", THEY) == "ont-ils fini"
    assert asked("aller", "past", SHE) == "est-elle allée"
    assert asked("se lever", "past", YOU) == "t’es-tu levé"
    assert asked("revenir", "fut", SHE) == "reviendra-t-elle"


def test_finish_writes_typography() -> None:
    written = french.finish("est-ce que il a l'heure ?")
    assert written == "Est-ce qu’il a l’heure\u202f?"
    assert french.finish("il est tard : pars !") == "Il est tard\u00a0: pars\u202f!"
    assert french.finish("si il pleut, je arrive.") == "S’il pleut, j’arrive."
    assert french.finish("le haricot et le huit") == "Le haricot et le huit"


@pytest.mark.parametrize(
    ("tense", "person", "middle", "expected"),
    [
        ("present", 2, "not", "does not go home"),
        ("present", 2, "", "goes home"),
        ("past", 0, "", "went home"),
        ("past", 0, "not", "did not go home"),
        ("perf", 2, "already", "has already gone home"),
        ("prog", 0, "", "am going home"),
        ("imperf", 4, "not", "were not going home"),
        ("fut", 2, "never", "will never go home"),
        ("used", 2, "", "used to go home"),
        ("just", 2, "", "has just gone home"),
    ],
)
def test_english_verb_groups(tense: str, person: int, middle: str, expected: str) -> None:
    group = english.verb_group(("go home", "went home", "gone home"), tense, person, middle)
    assert " ".join(group.split()) == expected


def test_english_forms() -> None:
    assert english.ing("run") == "running"
    assert english.ing("write") == "writing"
    assert english.ing("get up") == "getting up"
    assert english.regular_past("carry") == "carried"
    assert english.regular_past("travel") == "travelled"
    assert english.article("honest man") == "an honest man"
    assert english.article("useful book") == "a useful book"
    assert english.comparative("lazy") == "lazier"
    assert english.superlative("patient") == "most patient"
    assert english.finish("she  goes.") == "She goes."

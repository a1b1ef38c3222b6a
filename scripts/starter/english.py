"""English morphology for the lexicon: plurals, verb forms, articles, contractions."""

import hashlib
import re

DOUBLING = frozenset((
    "drop",
    "run", "swim", "sit", "put", "cut", "stop", "get", "plan", "travel", "forget", "begin",
    "shop", "win", "hug", "chat", "set",
))  # fmt: skip
SHORT_ADJECTIVES = frozenset((
    "wild", "tall", "young", "strong", "clever", "funny", "lazy", "brave", "shy", "kind", "rich",
    "fast", "poor", "old", "small",
))  # fmt: skip
BE = {"present": ("am", "are", "is", "are", "are", "are"),
      "past": ("was", "were", "was", "were", "were", "were")}  # fmt: skip
_NEGATIVES = {
    "do not": "don't", "does not": "doesn't", "did not": "didn't", "is not": "isn't",
    "are not": "aren't", "was not": "wasn't", "were not": "weren't", "will not": "won't",
    "has not": "hasn't", "have not": "haven't", "would not": "wouldn't", "cannot": "can't",
}  # fmt: skip
_PRONOUNS = {"I am": "I'm", "he is": "he's", "she is": "she's", "we are": "we're",
             "you are": "you're", "they are": "they're", "it is": "it's"}  # fmt: skip


def plural(noun: str) -> str:
    """Return the regular plural of the last word."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def _split(verb: str) -> tuple[str, str]:
    head, _, particle = verb.partition(" ")
    return head, f" {particle}" if particle else ""


def third(verb: str) -> str:
    """Return the third person singular of the present (goes, gets up)."""
    head, particle = _split(verb)
    if head == "have":
        return "has" + particle
    return (head + "es" if head.endswith("o") else plural(head)) + particle


def ing(verb: str) -> str:
    """Return the present participle (running, getting up)."""
    head, particle = _split(verb)
    if head.endswith("ie"):
        head = head[:-2] + "y"
    elif head.endswith("e") and not head.endswith("ee") and head != "be":
        head = head[:-1]
    elif head in DOUBLING:
        head += head[-1]
    return f"{head}ing{particle}"


def regular_past(verb: str) -> str:
    """Return the -ed form (stopped, carried, tidied up)."""
    head, particle = _split(verb)
    if head.endswith("y") and head[-2] not in "aeiou":
        head = head[:-1] + "i"
    elif head in DOUBLING:
        head += head[-1]
    return head + ("d" if head.endswith("e") else "ed") + particle


def article(phrase: str) -> str:
    """Put a or an before the phrase."""
    takes_an = phrase[0].lower() in "aeiou" or phrase.startswith(("hour", "honest"))
    if phrase.startswith(("uni", "use", "Euro", "one")):
        takes_an = False
    return f"{'an' if takes_an else 'a'} {phrase}"


def comparative(adjective: str) -> str:
    """Return taller, funnier, more patient."""
    if adjective not in SHORT_ADJECTIVES:
        return f"more {adjective}"
    if adjective.endswith("y") and adjective != "shy":
        return adjective[:-1] + "ier"
    return adjective + ("r" if adjective.endswith("e") else "er")


def superlative(adjective: str) -> str:
    """Return tallest, funniest, most patient."""
    if adjective not in SHORT_ADJECTIVES:
        return f"most {adjective}"
    return comparative(adjective)[:-1] + "st"


def verb_group(forms: tuple[str, str, str], tense: str, person: int, middle: str) -> str:
    """Return the inflected verb; `middle` holds not and the adverb, in that order.

    forms are base, past and past participle; person counts 0..5 (I, you, he, we, you, they).
    """
    base, past, done = forms
    negated = middle.startswith("not")
    gap = f" {middle} " if middle else " "
    be_now, be_then = BE["present"][person], BE["past"][person]
    have = "has" if person == 2 else "have"
    head, particle = _split(base)
    if head == "be" and tense in {"present", "past", "state"}:
        return f"{be_now if tense == 'present' else be_then}{gap}{particle}"
    if tense in {"present", "past", "state"}:
        do = "did" if tense != "present" else "does" if person == 2 else "do"
        plain = past if tense != "present" else third(base) if person == 2 else base
        return f"{do}{gap}{base}" if negated else f"{gap}{plain}"
    table = {
        "prog": f"{be_now}{gap}{ing(base)}", "imperf": f"{be_then}{gap}{ing(base)}",
        "perf": f"{have}{gap}{done}", "pluperf": f"had{gap}{done}", "fut": f"will{gap}{base}",
        "cond": f"would{gap}{base}", "going": f"{be_now}{gap}going to {base}",
        "just": f"{have} just {done}", "used": f"used to{gap}{base}", "inf": f"{gap}{base}",
        "ing": ing(base), "lets": f"let's{gap}{base}", "done": done,
    }  # fmt: skip
    table["imp"] = table["impvous"] = f"do not {base}" if negated else f"{gap}{base}"
    return table[tense]


def finish(text: str) -> str:
    """Return the sentence as printed: one spacing, capitals, and in some the short forms.

    Whether a sentence has short forms (don't, she's) depends on a hash of the sentence alone.
    """
    text = re.sub(r" +", " ", text).replace(" ,", ",").strip()
    draw = hashlib.sha256(text.encode()).digest()
    if draw[0] < 190:
        for long, short in _NEGATIVES.items():
            text = re.sub(rf"\b{long}\b", short, text)
    if draw[1] < 100:
        for long, short in _PRONOUNS.items():
            text = re.sub(rf"(^|, |because |that ){long}(?= [a-z])", rf"\1{short}", text)
    return re.sub(r"(^|[.?!] )(\w)", lambda m: m.group(1) + m.group(2).upper(), text)

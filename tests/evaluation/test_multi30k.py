"""multi30k.py: our references are the published ones, line by line."""

import gzip
import os
import sys
from pathlib import Path

import pytest
from evaluation.scores import score

from nmt.errors import DataError
from nmt.evaluation import multi30k

CORPORA = os.environ.get("NMT_CORPORA")
needs_corpora = pytest.mark.skipif(
    CORPORA is None, reason="NMT_CORPORA does not name the folder of the real corpora"
)


@pytest.fixture(params=["val", "test_2016_flickr"])
def published(request) -> tuple[list[str], list[str]]:
    """The raw French lines of a set, and the same as the data set's authors tokenised them."""
    folder = Path(CORPORA or "") / "multi30k"
    with gzip.open(folder / f"{request.param}.fr.gz", "rt", encoding="utf-8", newline="\n") as file:
        raw = file.read().split("\n")
    tokenised = (folder / f"{request.param}.lc.norm.tok.fr").read_bytes().decode().split("\n")
    assert len(raw) > 1000
    return raw[:-1], tokenised[:-1]


@needs_corpora
def test_our_references_differ_from_the_published_in_no_line(published):
    raw, tokenised = published
    ours = multi30k.tokenise(raw, "fr")
    assert [(o, t) for o, t in zip(ours, tokenised, strict=True) if o != t] == []


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("L'Été, un chien!", "l&apos; été , un chien !"),
        ("Elle dit « oui » .", "elle dit &quot; oui &quot; ."),
        # The script's own ways, which the published references have: a full stop leaves the
        # quotation marks, and U+2019 before a letter beyond a-z is a quotation mark.
        ('un café, "Chez Paul."', "un café , &quot; chez paul &quot; ."),
        ("Un coup d’œil", "un coup d &quot; œil"),
        ("l’arrière-plan", "l&apos; arrière-plan"),
        ("", ""),
    ],
)
def test_lower_case_then_normalise_then_tokenise(raw, tokens):
    assert multi30k.tokenise([raw], "fr") == [tokens]


def test_the_signature_names_the_steps_and_case_does_not_count():
    result = score("multi30k", ["UN CHIEN court ici."], [("Un chien court ici .",)], "fr")
    assert result.score == 100
    assert result.name == "BLEU-lc-norm-tok"
    assert "|tok:none|" in result.signature
    assert "|prep:lc.norm.tok.fr|sacremoses:" in result.signature
    refs = [("Un chien .", "Le chien dort bien ."), ("Deux chats jouent là .",)]
    result = score("multi30k", ["Le chien dort bien.", "Deux chats jouent là."], refs, "fr")
    assert (result.score, result.signature.partition("|")[0]) == (100, "nrefs:var")


def test_without_sacremoses_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(DataError, match=r"needs sacremoses.* 'attention-nmt\[moses\]'"):
        multi30k.tokenise(["Un chien."], "fr")

"""Arguments that no command accepts: one line with the flag, its value and what is allowed."""

import shlex
from pathlib import Path

import pytest
from cli.helpers import refusal, write_lines

from nmt.runs.lock import LOCK_NAME

CASES = """
trian | nmt: no such command 'trian'. Did you mean 'train'?
vocab --run x | nmt vocab: no such option: --run; nmt vocab --help lists the commands
eval --fo\x1b[31mo | nmt eval: no such option: --fo\\x1b[31mo
translate -5 | nmt translate: no such option: -5; a sentence that begins with - comes
eval --src a --src b | nmt eval: --src: given 2 times, allowed: once
translate --beam x hi | nmt translate: --beam: got 'x', allowed: a whole number
config check | nmt config check: missing argument 'files'
card r --run other | --run: got other and also r, allowed: one of them
train x.yaml --device cuda:7 | use --device cpu
curve runs/tiny --run runs/tiny --out same.png | different runs
translate a --lexicon x | --lexicon requires --replace-unk
translate a --json --show-attention | --json does not allow
translate a --n-best 4 | search.n_best: got 4, allowed: 1 to beam (3)
translate fine b\udcffd | argument 2: not UTF-8: 'b\\udcffd'
translate a --format html --lines | --format: got html, allowed with --lines
translate --format po --n-best 2 | --format: got po, allowed with
translate a --weights 1,2 | --weights: got 1,2, allowed:
translate a --temperature 2 --beam 3 | --beam
translate a --must zèbre | zèbre
translate a --must '' | --must '': search.must: got '', allowed:
translate a --prefix zèbre | zèbre
translate a --glossary x.tsv | x.tsv:
eval --src en | --src:
eval --src en --ref fr --split valid | --split:
eval --hyp fr --beam 3 | --hyp gives the translation
eval --baseline fr --no-bootstrap | --baseline:
eval --chrf --fail-under 20 | --fail-under:
eval --tokenize 13 | --tokenize: got '13', allowed:
eval --metric loss | --metric: got 'loss', allowed: bleu,
eval --hyp three --ref three --multi30k-style | multi30k:
eval --out - --json | --out: got -
compare runs/tiny absent.fr | absent.fr: no such file
compare fr en --ref fr --chrf --plot by.png | --plot:
score - - --run runs/tiny | got - twice
align - - --run runs/tiny | got - twice
align three fr --run runs/tiny | three: it has no line 4
align en fr --run runs/tiny --reverse runs/tiny | a run from en to fr
align en fr --run runs/tiny --symmetrise union | --symmetrise requires --reverse
align en fr --run runs/tiny --heads 9 | got '9', allowed: mean
align en fr --run runs/tiny --shift 1 --method erasure | --method: got shift 1, heads mean, allowed
attention x --contrast le | --contrast: allowed with a --method that accepts it
attention x --method norms --heads 1 | --heads: allowed with --method attention
attention x --out maps | --out: maps has no known suffix; add --format (jsonl, npz
attention | got none, allowed: one of SENTENCE, --file, --sp
attention x y --target z | --target: got 1 translation for 2 sentences
attention x --target y --beam 2 | --target: allowed without options of a search
attention x --side-by-side --format html | --side-by-side: allowed with --format png
attention x y --out a.png | --out: got a.png for 2 pictures
augment --run runs/tiny --out runs/tiny/eval | --out: runs/tiny/eval/augment.json belongs to the run
average runs/tiny | allowed: one of CHECKPOINT..., --last N and --best N
average runs/tiny --last 2 --name ../x | got '../x' as a checkpoint's name
export runs/tiny --format page --out page.html --int8 | --int8 requires --format onnx
calibrate --run runs/tiny --good 0 | chrF2 >= 0: got 5 of 5 translations
"""
"""A command, and what its line of error says."""


@pytest.mark.parametrize("case", CASES.strip("\n").split("\n"))
def test_what_does_not_fit_is_one_line(case: str, home: Path) -> None:
    write_lines(home / "three", ["a", "b", "c"])
    data = "data: {train: {src: en, tgt: fr}}"
    write_lines(home / "x.yaml", ["name: x", data, "train: {epochs: 1}"])
    typed, _, words = case.partition(" | ")
    before = {*home.rglob("*"), home / "runs" / "tiny" / LOCK_NAME}
    assert words in refusal(*shlex.split(typed))
    assert {*home.rglob("*")} <= before

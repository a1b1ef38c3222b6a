"""report.py: the lines as they are printed, and files that appear whole."""

import json

from nmt.evaluation.evaluate import Bucket, Evaluation
from nmt.evaluation.metric import MetricResult
from nmt.evaluation.score_report import (
    EvalReport,
    comparison_line,
    length_line,
    score_line,
    speed_line,
)
from nmt.evaluation.significance import Comparison
from nmt.evaluation.typography import Comparable
from nmt.types import EvalExample

BLEU = MetricResult("BLEU", 61.2345, "nrefs:1|tok:13a", 59.8, 62.71, 1000)
BUCKETS = (Bucket(0, 5, 10, 70.0), Bucket(41, None, 9, 9.125))
EXAMPLES = (EvalExample("summer", ("l'été",)), EvalExample("", ("rien",)))
TRANSLATED = Evaluation(Comparable(("l'été", ""), EXAMPLES, "plain"), {"bleu": BLEU}, BUCKETS, 0.5)
READ = Evaluation(Comparable(("a",), EXAMPLES[:1]), {"bleu": BLEU}, BUCKETS[:1])


def test_the_numbers_of_a_line_are_those_of_the_result():
    assert score_line(MetricResult("TER", 3.0, "s", None, None, 0)) == "TER 3.00  s"
    line = comparison_line(Comparison("BLEU", 60.1, 61.2345, 0.0123, 1000, 0.0113), "old.txt")
    assert line.startswith("BLEU +1.13 against 60.10 of old.txt, p = 0.012 ")
    assert speed_line(TRANSLATED) == "translated 2 sentences in 0.5 s (4.0 sentences/s)"
    assert length_line(TRANSLATED).endswith("0-5: 70.00 (n=10)  41+: too few (n=9)")
    assert (speed_line(READ), length_line(READ)) == ("", "")


def test_translations_are_kept_only_where_they_were_made(tmp_path):
    report = EvalReport("test_2016.flickr", TRANSLATED, {}, {"checkpoint": "best"})
    assert report.save(tmp_path) == []
    path = tmp_path / "eval" / "test_2016.flickr.json"
    assert json.loads(path.read_text("utf-8")) == report.as_json()
    assert json.loads(path.read_text("utf-8"))["scores"]["bleu"]["high"] == 62.71
    assert (tmp_path / "eval/test_2016.flickr.txt").read_text("utf-8") == "l'été\n\n"
    EvalReport("read", READ, {}, {}).save(tmp_path)
    assert {p.name for p in (tmp_path / "eval").iterdir()} == {
        "test_2016.flickr.json",
        "test_2016.flickr.txt",
        "read.json",
    }

"""Test sets and scores of `nmt eval` and `nmt compare`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nmt.cli.shared.messages import print_language_notes, say
from nmt.cli.shared.options import Split, language_option
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.config import RunConfig
    from nmt.evaluation.evaluate import Evaluation
    from nmt.evaluation.examples import TestSet
    from nmt.evaluation.metric import Scoring
    from nmt.evaluation.significance import Comparison
    from nmt.evaluation.typography import ComparableTexts
    from nmt.translation.translator import Translator


@dataclass(frozen=True)
class ScoreOptions:
    """Options that choose the test set and the metrics."""

    bleu: Annotated[bool, "Score by BLEU (the default)."] = False
    chrf: Annotated[bool, "Score by chrF2."] = False
    multi30k_style: Annotated[bool, "Score by the tokenised BLEU of Multi30k papers."] = False
    metric: Annotated[
        list[str] | None, "Score by another metric: bleu-lc, chrf++, ter or comet; may be repeated."
    ] = None
    comet: Annotated[
        Path | None, "Checkpoint for --metric comet, loaded by the package unbabel-comet."
    ] = None
    split: Annotated[Split, "test"] = None
    src: Annotated[
        Path | None, "Source text, one sentence a line, or without --ref a file with both sides."
    ] = None
    ref: Annotated[list[Path] | None, "Reference translation of the source; may be repeated."] = (
        None
    )
    lang: Annotated[
        str | None, language_option("Target", "the run's, or from the name of --ref")
    ] = None
    tokenize: Annotated[
        str | None,
        "BLEU's tokenisation: 13a, intl, char, none, zh, ja-mecab or ko-mecab.",
        "the run's, or by language",
    ] = None
    as_is: Annotated[bool, "Score texts as they are, without adapting their typography."] = False

    def metrics(self) -> tuple[str, ...]:
        """Return the requested metrics, or () without any. Raises ConfigError if one is unknown."""
        if self.metric:
            from nmt.evaluation.metrics import METRICS
            from nmt.settings.config_file import load_plugins

            load_plugins()
            for name in self.metric:
                if name not in METRICS:
                    raise ConfigError(f"--metric: got '{name}', allowed: {', '.join(METRICS)}")
        flags = {"bleu": self.bleu, "chrf": self.chrf, "multi30k": self.multi30k_style}
        names = (name for name, is_wanted in flags.items() if is_wanted)
        return tuple(dict.fromkeys([*names, *(self.metric or ())]))

    def scoring(
        self,
        config: "RunConfig | None",
        default: tuple[str, ...],
        n_bootstrap: int,
        device: str | None,
    ) -> "Scoring":
        """Return the scoring for the test set of a run, or of files if `config` is None.

        The metrics are `default` if no option requests one. COMET runs on `device`. Raises
        ConfigError for an unknown tokenisation or unusable metric.
        """
        from nmt.corpora.languages import language_of
        from nmt.device import resolve_device
        from nmt.evaluation.counts import target_words
        from nmt.evaluation.metric import TOKENISATIONS, Scoring
        from nmt.evaluation.metrics import check_metrics

        if self.tokenize is not None and self.tokenize not in TOKENISATIONS:
            allowed = ", ".join(TOKENISATIONS)
            raise ConfigError(f"--tokenize: got '{self.tokenize}', allowed: {allowed}")
        lang, tokenize = self.lang or "", self.tokenize
        if config is not None:
            lang = lang or config.data.tgt_lang
            tokenize = tokenize or config.valid.bleu_tokenize
        elif self.ref:
            lang = lang or language_of(self.ref[0])
        metrics = self.metrics() or default
        chip = resolve_device(device or "auto") if "comet" in metrics else None
        gpu = chip.index if chip is not None and chip.type == "cuda" else None
        known = None if config is None else target_words(config.data)
        scoring = Scoring(lang, metrics, n_bootstrap, tokenize, self.as_is, self.comet, gpu, known)
        check_metrics(scoring, "--tokenize")
        return scoring

    def test_set(self, config: "RunConfig | None", has_hypotheses: bool) -> "TestSet":
        """Read the test set from --src and --ref, or else from a split of the run's data.

        If `has_hypotheses`, the translations are in a file, and --src is not required. Raises
        ConfigError for contradictory options, and DataError for unreadable files.
        """
        from nmt.corpora.readers import is_text
        from nmt.evaluation.examples import files_as_test_set, split_as_test_set

        if self.src and not self.ref and is_text(self.src) and ".tsv" not in self.src.suffixes:
            raise ConfigError("--src: requires --ref, a reference translation to score against")
        if self.ref and not (self.src or has_hypotheses):
            raise ConfigError("--ref: requires --src (text to translate) or --hyp (a translation)")
        if self.split and (self.src or self.ref):
            raise ConfigError("--split: allowed without --src and --ref, which give the test set")
        if self.src or self.ref:
            data = None if config is None else config.data
            test_set = files_as_test_set(self.src, self.ref or (), data)
        else:
            assert config is not None
            test_set = split_as_test_set(self.split or "test", config.data)
        sources = [example.src_text for example in test_set.examples]
        references = [text for example in test_set.examples for text in example.ref_texts]
        src_lang, tgt_lang = (config.data.src_lang, config.data.tgt_lang) if config else ("", "")
        print_language_notes(sources, references, src_lang, self.lang or tgt_lang)
        return test_set


def translate_test_set(
    translator: "Translator", test_set: "TestSet", scoring: "Scoring"
) -> "Evaluation":
    """Translate and score a test set, with notes on stderr."""
    from nmt.device import describe_device
    from nmt.evaluation.evaluate import evaluate

    say(
        f"translating {len(test_set.examples):,} sentences of {test_set.corpus} "
        f"(beam {translator.search.beam}, {describe_device(translator.device)})"
    )
    evaluation = evaluate(translator, test_set.examples, scoring)
    # A run's translations always get the references' typography: that needs no note.
    print_alteration_notes(replace(evaluation.texts, n_retyped=0), test_set.corpus)
    return evaluation


def score_file(path: Path, test_set: "TestSet", scoring: "Scoring") -> "Evaluation":
    """Score the translations in a file. Notes on stderr say what scoring changes in the texts."""
    from nmt.evaluation.evaluate import score_translations
    from nmt.evaluation.examples import read_translations

    texts = read_translations(path, len(test_set.examples), test_set.corpus)
    evaluation = score_translations(texts, test_set.examples, scoring)
    print_alteration_notes(evaluation.texts, path)
    return evaluation


def print_alteration_notes(texts: "ComparableTexts", label: object) -> None:
    """Print on stderr how scoring alters the texts. Each line begins with `label`."""
    for note in texts.notes():
        say(f"{label}: {note}; --as-is leaves both sides as they are")


def note_untested(evaluation: "Evaluation", comparisons: "Mapping[str, Comparison]") -> None:
    """Print on stderr the metrics that have scores but no significance test."""
    for name, result in evaluation.scores.items():
        if name not in comparisons:
            say(f"{result.name} has no significance test")

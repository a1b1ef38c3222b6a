"""Augmentation: new training pairs, made of texts and their translations by trained models.

A text paired with its translation is a forward translation (sequence-level distillation; Kim and
Rush 2016, arXiv 1606.07947). With the translation as the source and the text as the target, the
pair is a back-translation (Sennrich et al. 2016, arXiv 1511.06709). Both together, by several
models, are data diversification (Nguyen et al. 2020, arXiv 1911.01986).
"""

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from nmt.corpora.cleaning import CleaningRules, judge_pairs
from nmt.corpora.text_files import stream_lines
from nmt.errors import ConfigError, DataError
from nmt.models.ensemble import Ensemble
from nmt.settings.keys import differences
from nmt.storage.atomic import ASIDE, lock, open_no_follow, write_json, write_text
from nmt.storage.bounded import read_json
from nmt.storage.run_files import check_outside_runs
from nmt.storage.terminal import one_line
from nmt.text.normalisation import normalise
from nmt.text.vocabulary import UNK_ID
from nmt.translation.translator import Translator
from nmt.types import EvalExample, FilePath, Hypothesis, SentencePair, Translation

PLAN, LOCK = "augment.json", "lock"

PART_TEXTS = 1024  # texts per part; a killed call repeats the unfinished part

Progress = Callable[[Iterator[Translation], int], Iterable[Translation]]
"""Wraps an iterator of translations, to show progress; the second argument is their number."""


@dataclass(frozen=True)
class PairRules:
    """Rules that make pairs of texts and their translations, and that drop unsuitable pairs.

    With `back`, the translation is the source of the pair, and the text its target. CleaningRules
    with this `max_ratio`, and defaults otherwise, apply to each pair. `min_score` is the minimum
    score of a translation, after any reranking. A limit of None is not checked.
    """

    back: bool = False
    max_ratio: float | None = CleaningRules.max_ratio
    min_score: float | None = None

    def cleaning(self, languages: tuple[str, str]) -> CleaningRules:
        """Return the rules that clean the pairs.

        `languages` are the language of the texts and that of the translations, also with `back`.
        """
        src_lang, tgt_lang = languages[::-1] if self.back else languages
        return CleaningRules(src_lang, tgt_lang, max_ratio=self.max_ratio)

    def pairs(
        self, translation: Translation, ref_texts: Iterable[str], languages: tuple[str, str]
    ) -> Iterator[tuple[SentencePair, str, str | None]]:
        """Yield the pair, the origin and the fault (or None) of each hypothesis, best first.

        A hypothesis is at fault if, after normalisation, it equals one of `ref_texts` or an earlier
        hypothesis without fault. The origin describes it, such as "back rank 1 score -0.5000".
        `languages` are as in `cleaning`. A text without pieces yields one pair, with an empty
        translation and the fault "empty".
        """
        kind, order = ("back", -1) if self.back else ("forward", 1)
        rules = self.cleaning(languages)
        known = {normalise(text, languages[1]): "same as reference" for text in ref_texts}
        if not translation.hypotheses:
            yield SentencePair(*(translation.src_text, "")[::order]), kind, "empty"
        for rank, output in enumerate(translation.hypotheses, start=1):
            pair = SentencePair(*(translation.src_text, output.text)[::order])
            [(_, text_fault)] = judge_pairs([pair], rules)
            key = normalise(output.text, languages[1])
            fault = self._fault(output.hypothesis) or text_fault or known.get(key)
            if "\t" in pair.src_text + pair.tgt_text:
                fault = "tab"
            if fault is None:
                known[key] = "duplicate"
            yield pair, f"{kind} rank {rank} score {output.hypothesis.score:.4f}", fault

    def _fault(self, hypothesis: Hypothesis) -> str | None:
        if not hypothesis.finished:
            return "unfinished"
        if UNK_ID in hypothesis.ids:
            return "unknown piece"
        if self.min_score is not None and hypothesis.score < self.min_score:
            return "low score"
        return None


def augment(
    translator: Translator,
    texts: Sequence[EvalExample],
    out: FilePath,
    rules: PairRules = PairRules(),
    force: bool = False,
    progress: Progress = lambda translations, count: translations,
) -> tuple[int, Counter[str]]:
    """Write pairs of `texts` and their translations to the folder `out`.

    Returns the number of pairs written, and the number of dropped pairs by reason. The source of
    each example is translated; a translation that equals one of its references is dropped. Each
    group of PART_TEXTS texts is written to two files. `part-00001.tsv` has the columns source,
    target and origin. `dropped-00001.tsv` has these columns after a column with the reason. Files
    are written atomically, and only if they are missing. Therefore a killed call can be repeated:
    on the same machine it leaves the same bytes as an unbroken call. `augment.json` records the
    models, the search, the rules and, at the end, the returned counts.

    Raises ConfigError if `out` has parts made with other texts, models or settings; `force` deletes
    them instead. Raises DataError if `texts` is empty, if `out` has files but no `augment.json`, or
    if another process writes there.
    """
    folder = Path(out)
    check_outside_runs(folder / PLAN, "`out`")
    if not texts:
        raise DataError("no text to translate")
    translator.translate([])  # raises what it raises for any text, before a file is written
    models = [translator, *(reranker.translator for reranker in translator.rerankers)]
    plan, names = _plan(models, texts, rules), [model.origin for model in models]
    with _locked(folder):
        _begin(folder, plan, names, force)
        numbers = range(1, -(-len(texts) // PART_TEXTS) + 1)
        missing = [number for number in numbers if not _file(folder, "part", number).exists()]
        count = sum(min(PART_TEXTS, len(texts) - (n - 1) * PART_TEXTS) for n in missing)
        for _ in progress(_write_parts(translator, texts, folder, rules, missing), count):
            pass
        n_pairs = sum(1 for number in numbers for _ in stream_lines(_file(folder, "part", number)))
        files = (_file(folder, "dropped", number) for number in numbers)
        dropped = Counter(line.split("\t", 1)[0] for path in files for line in stream_lines(path))
        write_json(folder / PLAN, {**plan, "by": names, "pairs": n_pairs, "dropped": dropped})
    return n_pairs, dropped


def _write_parts(
    translator: Translator,
    texts: Sequence[EvalExample],
    folder: Path,
    rules: PairRules,
    numbers: Iterable[int],
) -> Iterator[Translation]:
    """Write the files of the parts `numbers`, and yield each translation."""
    for number in numbers:
        pairs: list[str] = []
        dropped: list[str] = []
        examples = texts[(number - 1) * PART_TEXTS : number * PART_TEXTS]
        translations = translator.translate_stream(example.src_text for example in examples)
        for example, translation in zip(examples, translations, strict=True):
            result = rules.pairs(translation, example.ref_texts, translator.languages)
            for pair, origin, fault in result:
                line = "\t".join((pair.src_text, pair.tgt_text, origin))
                if fault is None:
                    pairs.append(f"{line}\n")
                else:
                    dropped.append(f"{fault}\t{one_line(line)}\n")
            yield translation
        # In this order: a part that exists is complete.
        write_text(_file(folder, "dropped", number), "".join(dropped))
        write_text(_file(folder, "part", number), "".join(pairs))


def _file(folder: Path, kind: str, number: int) -> Path:
    return folder / f"{kind}-{number:05d}.tsv"


def _files(folder: Path, kind: str) -> list[Path]:
    """Return the files of all parts, but not other files, such as part-old.tsv."""
    return [*folder.glob(f"{kind}-{'[0-9]' * 5}.tsv")]


def _plan(
    models: Sequence[Translator], texts: Sequence[EvalExample], rules: PairRules
) -> dict[str, object]:
    """Return JSON values that determine the pairs, up to rounding on other machines."""
    translator, model = models[0], models[0].model
    checksum = hashlib.sha256()
    for example in texts:
        checksum.update(json.dumps([example.src_text, *example.ref_texts]).encode())
    return {
        "texts": {"count": len(texts), "sha256": checksum.hexdigest(), "per_part": PART_TEXTS},
        "weights": list(model.weights) if isinstance(model, Ensemble) else None,
        "rerank_weights": [reranker.weight for reranker in translator.rerankers],
        "search": translator.search.model_dump(mode="json", exclude={"batch_size"}),
        "int8": translator.int8,
        "rules": {**asdict(rules), **asdict(rules.cleaning(translator.languages))},
        "models": [_checksum(one) for one in models],  # last: --int8 changes these too
    }


def _checksum(translator: Translator) -> str:
    """Return a checksum of tokenizers and weights, which identifies the model in a plan."""
    checksum = hashlib.sha256()
    for side in (translator.tokenizers.src, translator.tokenizers.tgt):
        checksum.update(side.model_bytes)
    for tensor in translator.model.state_dict().values():
        checksum.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return checksum.hexdigest()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder, after creating it if it is missing. Raises DataError."""
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if PLAN not in names and any(n != LOCK and not n.startswith(ASIDE) for n in names):
        remedy = "give a new folder, or one of an earlier augmentation"
        raise DataError(f"{folder}: has files, but no {PLAN}; {remedy}")
    folder.mkdir(parents=True, exist_ok=True)
    with open_no_follow(folder / LOCK, append=True) as stream:
        try:
            lock(stream.fileno())
        except BlockingIOError:
            remedy = "wait for it, or give another `out`"
            raise DataError(f"{folder}: another process writes there; {remedy}") from None
        yield


def _begin(folder: Path, plan: dict[str, object], names: list[str], force: bool) -> None:
    """Write the plan, or compare it with the plan of existing parts. Raises ConfigError."""
    path, parts = folder / PLAN, _files(folder, "part")
    if parts and not force:
        before = read_json(path, DataError)
        before = {key: before.get(key) for key in plan} if isinstance(before, dict) else {}
        difference = next(differences(before, plan), None)
        if difference is not None:
            key, old, new = difference
            problem = f"begun with a different value of {key} ({old}, now {new})"
            remedy = "give the old one, another `out`, or `force` to begin again"
            raise ConfigError(f"{folder}: {problem}; {remedy}")
        return
    for file in [*parts, *_files(folder, "dropped")]:
        file.unlink()
    write_json(path, {**plan, "by": names})

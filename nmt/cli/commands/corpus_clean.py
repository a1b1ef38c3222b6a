"""`nmt corpus clean`: write the pairs of a messy corpus that pass, and count the rest by reason."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import complain
from nmt.cli.shared.options import Json, language
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.corpora.cleaning import CleaningRules
    from nmt.corpora.sources import SplitConfig
    from nmt.types import SentencePair


def clean(
    files: Annotated[
        list[Path],
        Argument(help="Source and target text, or one of lines source, tab, target."),
    ],
    out: Annotated[
        list[Path] | None,
        Option(
            writable=True,
            help="File to write; - is stdout; once for each that is read.",
            show_default=False,
        ),
    ] = None,
    src_lang: Annotated[
        str | None,
        Option(help="Source language.", show_default="the ending of its file", callback=language),
    ] = None,
    tgt_lang: Annotated[
        str | None,
        Option(help="Target language.", show_default="the ending of its file", callback=language),
    ] = None,
    max_words: Annotated[int, Option(min=0, help="Most words of a side; 0: any number.")] = 150,
    max_ratio: Annotated[
        float,
        Option(min=0, help="Longer side over shorter one, in characters, 10 more allowed; 0: any."),
    ] = 3.0,
    min_script: Annotated[
        float, Option(min=0, max=1, help="Least share of letters in the language's script.")
    ] = 0.5,
    keep_copies: Annotated[
        bool, Option("--keep-copies", help="Keep pairs with the same text on both sides.")
    ] = False,
    keep_duplicates: Annotated[
        bool, Option("--keep-duplicates", help="Keep pairs that occur again.")
    ] = False,
    rejected: Annotated[
        Path | None,
        Option(
            writable=True,
            help="Write the others here: reason, line, source, target, between tabs.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the pairs of a corpus that pass; count the others by reason.

    They are written unaltered. Left out are pairs with an empty side, damaged characters, the same
    text on both sides, too many words, lengths that do not fit each other, another script, and
    pairs that occur again.

    Files are read line by line, so that they may be larger than memory.
    """
    if len(files) not in (1, 2) or len(out or ()) != len(files):
        raise ConfigError(
            f"nmt corpus clean: got {len(files)} files and {len(out or ())} of --out, allowed: "
            "one of each, or two of each"
        )
    if 0 < max_ratio < 1:
        raise ConfigError(f"--max-ratio: got {max_ratio:g}, allowed: at least 1, or 0 for any")
    from nmt.corpora.cleaning import CleaningRules
    from nmt.corpora.languages import language_of
    from nmt.corpora.sources import SplitConfig

    is_pair = len(files) == 1
    split = SplitConfig(file=files[0]) if is_pair else SplitConfig(src=files[0], tgt=files[1])
    writes = [*(out or ()), *([] if rejected is None else [rejected])]
    langs = ["", ""] if is_pair else [language_of(file) for file in files]
    rules = CleaningRules(
        src_lang=src_lang or langs[0],
        tgt_lang=tgt_lang or langs[1],
        max_words=max_words or None,
        max_ratio=max_ratio or None,
        min_script=min_script or None,
        copies=keep_copies,
        duplicates=keep_duplicates,
    )
    counts = _write(split, rules, out or [], rejected)
    n_kept = counts.pop("")
    n_all = n_kept + counts.total()
    # Where the pairs are on stdout, the counts are not.
    print_line = complain if Path("-") in writes else typer.echo
    if as_json:
        print_line(json.dumps({"pairs": n_all, "kept": n_kept, "left_out": dict(counts)}))
        return
    print_line(f"kept {n_kept:,} of {n_all:,} pairs ({n_kept / max(1, n_all):.2%})")
    for reason, count in counts.most_common():
        print_line(f"  {reason:<20}{count:>10,}  ({count / n_all:.2%})")


def _write(
    split: "SplitConfig", rules: "CleaningRules", out: list[Path], rejected: Path | None
) -> Counter[str]:
    """Write what passes and what does not. Returns the pairs by reason; those kept have none."""
    from nmt.corpora.cleaning import judged
    from nmt.corpora.corpora import stream_split
    from nmt.corpora.sources import DataConfig
    from nmt.storage.output import atomic_output

    counts: Counter[str] = Counter({"": 0})
    with ExitStack() as stack:
        outputs = [stack.enter_context(atomic_output(path)) for path in out]
        others = None if rejected is None else stack.enter_context(atomic_output(rejected))
        pairs = _progress(stream_split(split, DataConfig()))
        for number, judgement in enumerate(judged(pairs, rules), start=1):
            counts[judgement.reason or ""] += 1
            texts = [judgement.pair.src_text, judgement.pair.tgt_text]
            if judgement.reason is not None:
                if others is not None:
                    _line(others, "\t".join([judgement.reason, str(number), *texts]))
            elif len(outputs) == 1:
                _line(outputs[0], "\t".join(texts))
            else:
                for output, text in zip(outputs, texts, strict=True):
                    _line(output, text)
        if not counts[""]:
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in counts.most_common() if reason)
            raise DataError(f"no pair passes, so no file is written: {reasons or 'no pair read'}")
    return counts


def _line(stream: BinaryIO, text: str) -> None:
    from nmt.storage.atomic import utf8

    stream.write(utf8(f"{text}\n"))


def _progress(pairs: "Iterator[SentencePair]") -> "Iterator[SentencePair]":
    from tqdm import tqdm

    yield from tqdm(pairs, desc="read", unit=" pairs", disable=None)

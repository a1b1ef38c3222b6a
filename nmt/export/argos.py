"""Export of a trained Transformer as a package for Argos Translate and LibreTranslate."""

import json
import tempfile
import zipfile
from pathlib import Path

import sentencepiece

from nmt.corpora.languages import NAMES, language_code
from nmt.errors import ConfigError
from nmt.export.ctranslate2_folder import check_exportable, export_ctranslate2
from nmt.runs.trained_run import TrainedRun
from nmt.storage.output import atomic_output
from nmt.text.normalisation import REPLACEMENTS, normalise
from nmt.text.tokenizer import Tokenizer


def export_argos(run: TrainedRun, checkpoint: str, out: Path, card: str) -> None:
    """Write a checkpoint as the package `out`, a zip archive with `card` as its README.md.

    Argos Translate segments the source with its one SentencePiece model and joins target pieces at
    their space marks. Raises ConfigError for other tokenizers and for case markup, and the errors
    of `export_ctranslate2` and `atomic_output`.
    """
    check_exportable(run.config)
    tokenizers = run.tokenizers()
    metadata = {"package_version": "1.0", "argos_version": "1.9"}
    for end, side in (("from", tokenizers.src), ("to", tokenizers.tgt)):
        case = getattr(side.config, "case", None)
        if case != "keep":
            got = f"kind '{side.config.kind}'" + (f" with case '{case}'" if case else "")
            raise ConfigError(
                f"cannot export tokenizer: got {got}, allowed: kind 'sentencepiece' with case "
                "'keep', because Argos Translate restores no capitals; train with "
                "tokenizer.case=keep, or use format ctranslate2"
            )
        code = language_code(side.lang)
        metadata |= {f"{end}_code": code, f"{end}_name": NAMES.get(code, code)}
    long_run = run.with_config(["search.max_length=1024"])  # CTranslate2's limit on a source
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, f"translate-{metadata['from_code']}_{metadata['to_code']}-1_0")
        export_ctranslate2(long_run, checkpoint, package / "model")
        (package / "metadata.json").write_text(json.dumps(metadata, indent=1), encoding="utf-8")
        (package / "README.md").write_text(card, encoding="utf-8")
        (package / "sentencepiece.model").write_bytes(_with_rules(tokenizers.src))
        with atomic_output(out) as stream, zipfile.ZipFile(stream, "w") as archive:
            for file in sorted(package.rglob("*")):
                archive.write(file, file.relative_to(folder))


def _with_rules(tokenizer: Tokenizer) -> bytes:
    """Return a SentencePiece model with the rules of `normalise` for single characters.

    The marks `?`, `!` and `»` always get the space that `normalise` may put before them. Parsers of
    Protocol Buffers merge concatenated messages, so the rules are appended to the model.
    """
    spaced = {mark: normalise(f"a{mark}", tokenizer.lang)[1:] for mark in "?!»"}
    rules = {a: b for a, b in {**REPLACEMENTS, **spaced}.items() if a not in (b, "\0")}
    lines = [f"{ord(a):X}\t{' '.join(f'{ord(c):X}' for c in b)}\n" for a, b in rules.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rules.tsv")
        path.write_text("".join(lines), encoding="ascii")
        sentencepiece.set_min_log_level(2)
        normalizer = sentencepiece.SentencePieceNormalizer(
            rule_tsv=str(path), remove_extra_whitespaces=True
        )
    return tokenizer.model_bytes + bytes(normalizer.serialized_model_proto())

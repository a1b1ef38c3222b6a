"""`nmt vocab`: look into the vocabularies of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.options import First, Run

if TYPE_CHECKING:
    from nmt.text.tokenizer import Tokenizer


def show(
    text: Annotated[str | None, Argument(help="A text to cut into pieces.")] = None,
    *,
    run: Run = None,
    side: Annotated[
        Literal["src", "tgt"] | None,
        Option(help="The side to show.", show_default="both; of a text the source"),
    ] = None,
    first: First = 20,
) -> None:
    """Print sizes and first pieces, or how a text is cut into pieces.

    For TEXT the decoded text is printed too. --run takes a run, or its folder tokenizer.
    Pieces are printed in the order of their ids, the four reserved ones first. Words and unigram
    pieces go from the most frequent to the rarest, BPE pieces in the order of their merges.
    """
    from nmt.text.tokenizer import Tokenizers

    tokenizers = Tokenizers.load(_folder(run))
    both = {"src": tokenizers.src, "tgt": tokenizers.tgt}
    if text is not None:
        _show_text(both[side or "src"], text)
        return
    joint = ", joint" if tokenizers.joint else ""
    for name in both if side is None else (side,):
        tokenizer, config = both[name], both[name].config
        model = f" {config.model_type}" if config.kind == "sentencepiece" else ""
        size = f"{len(tokenizer.vocab):,} pieces, {config.kind}{model}{joint}"
        typer.echo(f"{name} {tokenizer.lang}: {size}")
        for id_, piece in enumerate(tokenizer.vocab.pieces[:first]):
            typer.echo(f"{id_:6}  {piece}")


def _folder(run: Path | None) -> Path:
    """The folder of the vocabularies; a run that is named may have no checkpoint yet."""
    from nmt.text.tokenizer import MANIFEST_NAME

    if run is None or not run.is_dir():
        from nmt.runs.find import find_run

        run = find_run(run)
        say(f"using {run}")
    return run if (run / MANIFEST_NAME).is_file() else run / "tokenizer"


def _show_text(tokenizer: "Tokenizer", text: str) -> None:
    from nmt.text.normalisation import normalise
    from nmt.text.vocabulary import UNK_ID

    encoded = tokenizer.encode(text)
    pieces = zip(encoded.pieces, encoded.ids, strict=True)
    for label, words in (
        ("normalised", normalise(text, tokenizer.lang)),
        ("pieces", " ".join(encoded.pieces) or "-"),
        ("ids", " ".join(map(str, encoded.ids)) or "-"),
        ("unknown", " ".join(piece for piece, id_ in pieces if id_ == UNK_ID) or "-"),
        ("decoded", tokenizer.decode(encoded.ids)),
    ):
        typer.echo(f"{label:<12}{words}")

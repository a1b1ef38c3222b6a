"""`nmt vocab`: inspect the vocabularies of a run."""

from typing import Annotated, Literal

import typer
from typer import Argument

from nmt.cli.shared.messages import say
from nmt.cli.shared.options import First, Run


def show(
    text: Annotated[str | None, Argument(help="Text to split into pieces.")] = None,
    *,
    run: Run = None,
    side: Annotated[Literal["src", "tgt"] | None, "Side to show.", "both; with TEXT src"] = None,
    first: First = 20,
) -> None:
    """Print vocabulary sizes and first pieces, or the pieces of a text.

    --run takes a run directory, or its subfolder tokenizer. Pieces are listed in the order of their
    ids, the four reserved pieces first. Words and unigram pieces follow from the most frequent to
    the rarest, BPE pieces in the order of their merges.
    """
    from nmt.text.normalisation import normalise
    from nmt.text.tokenizer import MANIFEST_NAME, Tokenizers
    from nmt.text.vocabulary import UNK_ID

    if run is None or not run.is_dir():  # a run directory may lack a checkpoint
        from nmt.runs.find import find_run
        from nmt.runs.trained_run import TrainedRun

        path = find_run(run)
        say(f"using {path}")
        tokenizers = TrainedRun.open(path).tokenizers()
    else:
        tokenizers = Tokenizers.load(run if (run / MANIFEST_NAME).is_file() else run / "tokenizer")
    sides = {"src": tokenizers.src, "tgt": tokenizers.tgt}
    if text is not None:
        tokenizer = sides[side or "src"]
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
        return
    joint = ", joint" if tokenizers.joint else ""
    for name in sides if side is None else (side,):
        tokenizer, config = sides[name], sides[name].config
        model = f" {config.model_type}" if config.kind == "sentencepiece" else ""
        size = f"{len(tokenizer.vocab):,} pieces, {config.kind}{model}{joint}"
        typer.echo(f"{name} {tokenizer.lang}: {size}")
        for id_, piece in enumerate(tokenizer.vocab.pieces[:first]):
            typer.echo(f"{id_:6}  {piece}")

"""Commands in this process, and small runs for them: one trained briefly, others untrained."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main
from click.testing import Result
from training.toy import toy_config
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import RunConfig, load_config
from nmt.corpora.readers.aligned import stream_aligned
from nmt.models.catalog import build_model
from nmt.runs.directory import RunDirectory
from nmt.text.tokenizer import train_tokenizers

ENGLISH = [
    "the man sleeps.",
    "the cat is here!",
    "he is late",
    "it's summer",
    "she's in the garden",
]
FRENCH = [
    "l'homme dort.",
    "le chat est ici !",
    "il est en retard",
    "c'est l'été",
    "elle est dans le jardin",
]

COMMAND = typer.main.get_command(app)


def nmt(*arguments: object, code: int = 0, stdin: bytes = b"") -> Result:
    """Run a command, which is to end with this exit code and without a traceback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", lambda _: COMMAND)  # instead of a new one
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def refusal(*arguments: object, stdin: bytes = b"") -> str:
    """The only line of error of a command that is refused, without `error: `."""
    lines = nmt(*arguments, code=2, stdin=stdin).stderr.splitlines()
    [error] = [line for line in lines if line.startswith("error: ")]
    assert error == lines[-1]
    return error.removeprefix("error: ")


def started(*arguments: str, program: str = "", **options: object) -> "subprocess.Popen[str]":
    """Start `nmt` with pipes, after the lines of `program`."""
    main = f"import sys\n{program}\nfrom nmt.cli.app import main\nsys.argv[0] = 'nmt'\nmain()\n"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen([sys.executable, "-c", main, *arguments], env=environment, **streams)  # type: ignore[call-overload, no-any-return]


def _commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    for child, member in group.commands.items():
        if hasattr(member, "commands"):
            yield from _commands(member, f"{name} {child}")
        else:
            yield f"{name} {child}", member


COMMANDS = dict(_commands(COMMAND, "nmt"))
"""Each command, but no group of commands, by its name, such as `nmt runs list`."""


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def brief_config(folder: Path, **train: object) -> RunConfig:
    """Six updates in three epochs, of which many checkpoints are kept."""
    keep = {"keep_last": 2, "keep_best": 3, "epochs": 3, "log_every": 1, **train}
    return toy_config(folder, train=keep, valid={"metric": "loss"}, model={"hidden": 16})


def change_data(run: Path, **changes: object) -> None:
    """Change keys of `data` in the config of a run."""
    directory = RunDirectory(run)
    tree = directory.load_config().model_dump(mode="json")
    tree["data"] |= changes
    directory.write_config(RunConfig.model_validate(tree))


def untrained_run(
    home: Path,
    name: str,
    src: str = "en",
    tgt: str = "fr",
    seeds: tuple[int, int] = (3, 5),
    model: str = "{embedding: 5, hidden: 7}",
) -> Path:
    """A run on the files `src` and `tgt` of `home`, with the checkpoints 3 (best) and 5 (last)."""
    files = f"{{src: {home / src}, tgt: {home / tgt}}}"
    text = f"""
name: {name}
data: {{src_lang: {src}, tgt_lang: {tgt}, train: {files}, valid: {files}, test: {files}}}
tokenizer: {{kind: word, min_freq: 1}}
model: {model}
train: {{epochs: 1}}
search: {{beam: 3, max_length: 9}}
"""
    config = load_config(write_lines(home / f"{name}.yaml", [text]))
    run = RunDirectory.create(home / "runs" / name, config)
    pairs = list(stream_aligned(home / src, home / tgt))
    tokenizers = train_tokenizers(config.tokenizer, pairs, src, tgt, seed=1)
    tokenizers.save(run.tokenizer_path)
    for step, label, seed in ((3, "best", seeds[0]), (5, "last", seeds[1])):
        torch.manual_seed(seed)
        model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
        tensors = {name: 3 * tensor for name, tensor in model.state_dict().items()}
        run.checkpoint_folder.save(step, tensors, {}, {})
        run.checkpoint_folder.update_labels({label: step})
    return run.path

"""Laws of all commands that write: no file is lost that the user did not give up."""

from pathlib import Path

import pytest
from cli.helpers import COMMANDS, nmt, refusal

from nmt.cli.shared.command import path_parameters

RUN = ("--run", "run")
LANGUAGES = ("--src-lang", "en", "--tgt-lang", "de")
TEXT, OUT = "some.txt", "OUT"
CLEAN = ("corpus", "clean", "valid.tsv", *LANGUAGES)
WRITERS = {
    ("translate", "out"): ("translate", *RUN, "--file", TEXT, "--out", OUT),
    ("eval", "out"): ("eval", *RUN, "--no-bootstrap", "--beam", "1", "--out", OUT),
    ("score", "out"): ("score", *RUN, TEXT, TEXT, "--out", OUT),
    ("attention", "out"): ("attention", *RUN, "--file", TEXT, "--format", "text", "--out", OUT),
    ("align", "out"): ("align", *RUN, TEXT, TEXT, "--out", OUT),
    ("lexicon", "out"): ("lexicon", *RUN, "--split", "valid", "--out", OUT),
    ("compare", "plot"): ("compare", "run", "run@last", "--bleu", "--plot", OUT),
    ("curve", "out"): ("curve", *RUN, "--out", OUT),
    ("report", "out"): ("report", *RUN, "--out", OUT),
    ("card", "out"): ("card", *RUN, "--out", OUT),
    ("runs pack", "out"): ("runs", "pack", *RUN, "--out", OUT),
    ("init", "out"): ("init", "train.tsv", *LANGUAGES, "--out", OUT),
    ("corpus clean", "out"): (*CLEAN, "--out", OUT),
    ("corpus clean", "rejected"): (*CLEAN, "--out", "/dev/null", "--rejected", OUT),
}
"""By command and option: how a command writes the file OUT."""

FOLDERS = {
    ("lab", "out"): (("lab", "masks", "--out", "D"), "masks.json"),
    ("export", "out"): (("export", "run", "--out", "D"), "manifest.json"),
    ("augment", "out"): (("augment", "--run", "run", "--out", "D"), "part-00001.tsv"),
}
"""By command and option: how the command writes into the folder D, and a file that it has there."""


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_option_that_writes_is_under_these_laws() -> None:
    """Unmarked, the class Command would take it for an input, and not guard it."""
    writers = set()
    for full_name, member in COMMANDS.items():
        name = full_name.removeprefix("nmt ")
        for option, info in path_parameters(member.callback).items():
            writes = any(word in (info.help or "") for word in ("to write", "Write "))
            assert info.writable or not (writes or option == "out"), (name, option)
            if info.writable:
                writers.add((name, option))
                assert any(parameter.name == "force" for parameter in member.params), name
    assert writers == {*WRITERS, *FOLDERS}


@pytest.mark.parametrize("case", WRITERS.values(), ids=map(" ".join, WRITERS))
def test_force_replaces_an_output_and_no_input(case: tuple[str, ...], folder: Path) -> None:
    def write(name: str, *flags: str, code: int = 0) -> str:
        words = (name if word == OUT else word for word in case)
        return nmt(*words, *flags, code=code).stderr

    path = folder / "mine.png"
    path.write_text("precious")
    (folder / "within").symlink_to("run/samples")
    before = content(folder)
    assert "--force" in write("mine.png", code=2)
    inputs = {"some.txt", "valid.tsv", "train.tsv"} & {*case}
    for name in (*inputs, "run/config.yaml", "run/eval/new.txt", "within/new"):
        write(name, "--force", code=2)
        assert content(folder) == before, name
    write("mine.png", "--force")
    assert path.read_text("latin-1") != "precious"
    assert {name for name in content(folder) if "eval" not in name} == {*before}


@pytest.mark.parametrize("option", FOLDERS, ids=" ".join)
def test_nothing_is_written_over_in_a_folder(option: tuple[str, str], folder: Path) -> None:
    words, name = FOLDERS[option]
    (folder / "D" / "features").mkdir(parents=True)
    (folder / "D" / name).write_text("precious")
    before = content(folder)
    nmt(*words, code=2)
    assert content(folder) == before


def test_two_outputs_of_one_command_are_two_files(folder: Path) -> None:
    (folder / "b").symlink_to("a")
    for other in ("./a", "b"):
        refusal(*CLEAN, "--force", "--out", "a", "--rejected", other)
    assert not (folder / "a").exists()


@pytest.mark.parametrize(
    "words",
    [
        "train --config toy.yaml --run run/checkpoints/mine",
        "train --config toy.yaml --set data.cache=run/samples --run new",
        "corpus fetch multi30k --data run/tokenizer",
        "average run --last 1 --name mine",
    ],
)
def test_a_folder_of_something_else_stays(words: str, folder: Path) -> None:
    for name in ("folder/tokenizer/src.word.txt", "run/checkpoints/mine/notes.txt"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("precious")
    before = content(folder)
    nmt(*words.split(), code=2)
    assert content(folder).items() >= before.items()
    assert content(folder / "run").items() <= before.items()

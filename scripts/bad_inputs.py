"""Every kind of bad input, and its error message.

    .venv/bin/python scripts/bad_inputs.py              prints the table of docs/untrusted-input.md
    .venv/bin/python scripts/bad_inputs.py --write      puts it there

Each row is a command that is run on its own files in an empty folder, with an untrained model of a
dozen words. A test compares the page with the printed table.
"""

import argparse
import contextlib
import gzip
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from forging import forge_config
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import RunConfig, TrainConfig
from nmt.data.sources import DataConfig, SplitConfig
from nmt.decoding.search_config import SearchConfig
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.runs.directory import RunDirectory
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_tokenizer import WordConfig
from nmt.types import SentencePair

PAGE = Path(__file__).resolve().parents[1] / "docs" / "untrusted-input.md"
BEGIN, END = "<!-- bad inputs: begin -->\n", "<!-- bad inputs: end -->\n"
RUN = Path("run")
MODEL = "checkpoints/step-000001/model.safetensors"
MINIMAL = "name: x\ndata: {corpus: starter}\ntrain: {epochs: 1}\n"


@dataclass(frozen=True)
class Case:
    """A row of the table: the fault, a function that writes the files, and the command."""

    what: str
    command: tuple[str, ...]
    prepare: Callable[[], object] = lambda: None
    stdin: bytes = b""


def make_run() -> None:
    """An untrained model in the folder `run`."""
    pairs = [
        SentencePair("The cat sleeps.", "Le chat dort."),
        SentencePair("A dog, the cat!", "Un chien, le chat !"),
    ]
    config = RunConfig(
        name="tiny",
        data=DataConfig(train=SplitConfig(src=Path("a.en"), tgt=Path("a.fr"))),
        tokenizer=WordConfig(min_freq=1),
        model=RNNConfig(embedding=5, hidden=7),
        train=TrainConfig(steps=1),
        search=SearchConfig(beam=2),
    )
    run = RunDirectory.create(RUN, config)
    tokenizers = train_tokenizers(config.tokenizer, pairs, "en", "fr", seed=1)
    tokenizers.save(run.tokenizer_path)
    torch.manual_seed(2)
    model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    run.checkpoint_folder.save(1, model.state_dict(), {}, {"step": 1})
    run.checkpoint_folder.point({"best": 1, "last": 1})


def write(name: str, content: str | bytes) -> Callable[[], object]:
    """Make a file."""
    raw = content if isinstance(content, bytes) else content.encode()
    return lambda: Path(name).write_bytes(raw)


def sparse(name: str, n_bytes: int) -> Callable[[], object]:
    """Write a sparse file: `n_bytes` bytes that take none on the disk."""

    def make() -> None:
        Path(name).touch()
        os.truncate(name, n_bytes)

    return make


def bomb(name: str) -> Callable[[], object]:
    """Half a gigabyte of equal lines, packed."""

    def make() -> None:
        line = b"a\tb" + b" " * 10_000_000 + b"\n"
        if name.endswith(".gz"):
            with gzip.open(name, "wb", compresslevel=1) as file:
                for _ in range(10):
                    file.write(line)
        else:
            with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                archive.writestr("a.tsv", line * 10)

    return make


def billion_words() -> str:
    """A YAML file whose aliases expand to a billion words."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for old, new in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]")
    return "\n".join(lines)


def config_cases() -> Iterator[Case]:
    """Configurations."""
    files: dict[str, str | bytes] = {
        "a billion words by aliases": billion_words(),
        "100 levels": "".join(f"{' ' * n}a:\n" for n in range(100)),
        "100,000 brackets": "a: " + "[" * 100_000,
        "a key given twice": f"{MINIMAL}seed: 1\nseed: 2\n",
        "a NUL byte": f"{MINIMAL}seed: \0\n",
        "not UTF-8": f"{MINIMAL}# caf\xe9\n".encode("latin-1"),
        "a number of 5,000 digits": f"{MINIMAL}seed: {'9' * 5000}\n",
        "a tag that names code": f"{MINIMAL}seed: !!python/object/apply:os.system [ls]\n",
        "a line end in a key": f'{MINIMAL}"a\\nb": 1\n',
        "nothing": "",
        "three faults": f"{MINIMAL}sed: 1\nvalid: {{beam: 0}}\nsearch: {{n_best: x}}\n",
        "a beam larger than the vocabulary": f"{MINIMAL}tokenizer: {{vocab_size: 9}}\n"
        "search: {beam: 10}\n",
        "a fault and two contradictions": f"{MINIMAL}sed: 1\ntokenizer: {{vocab_size: 9}}\n"
        "search:\n  beam: 10\n  n_best: 11\n",
        "tied embeddings of two sizes": f"{MINIMAL}model: {{tie_embeddings: target, "
        "embedding: 3, hidden: 5}\n",
        "patience without validation": "name: x\ndata: {train: {file: a.tsv}}\n"
        "train: {epochs: 1}\nvalid: {patience: 2}\n",
    }
    check = ("config", "check", "x.yaml")
    for what, content in files.items():
        yield Case(f"config: {what}", check, write("x.yaml", content))
    yield Case("config: a gigabyte", check, sparse("x.yaml", 1 << 30))
    yield Case("config: no end", ("config", "check", "/dev/zero"))


def text_cases() -> Iterator[Case]:
    """Texts to translate."""
    texts = {
        "empty": "",
        "only spaces": " \t\u3000",
        "only emoji": "😀😀 🎉",
        "no known word": "quokka zyzzyva",
        "10,000 words": "the cat " * 5_000,
        "a word of 100,000 letters": "a" * 100_000,
        "control characters": "\x01the\x1b[31m cat\x7f",
        "U+2028, U+0085, a lone carriage return": "the\u2028cat\u0085a\rdog",
        "NUL": "the\0cat",
        "Arabic": "القطة نائمة.",
        "Chinese": "猫在睡觉。",
        "names of special pieces": "<s> </s> <pad> <unk>",
    }
    translate = ("translate", "--run", "run")
    file = (*translate, "--file", "a.en")
    align = ("attention", "--run", "run", "--file", "a.en", "--format", "pharaoh")
    score = ("eval", "--run", "run", "--src", "a.en", "--ref", "a.en", "--no-bootstrap")
    for what, text in texts.items():
        yield Case(f"text: {what}", translate, stdin=f"{text}\n".encode())
    lines = "".join(f"{text}\n" for what, text in texts.items() if what != "10,000 words")
    yield Case("text: all of these but the longest", file, write("a.en", lines))
    yield Case("the same", align, write("a.en", lines))
    yield Case("the same", score, write("a.en", lines))
    yield Case("text: bytes that are not UTF-8", (*translate, "the cat", "caf\udce9"))
    latin = b"the cat\ncaf\xe9\n"
    yield Case("the same", translate, stdin=latin)
    for command in (file, align[:-2], score):
        yield Case("the same", command, write("a.en", latin))
    yield Case("text: UTF-16", file, write("a.en", "a".encode("utf-16")))
    yield Case("text: a line without end", (*translate, "--file", "/dev/zero"))
    lexicon = (*translate, "a", "--replace-unk", "--lexicon", "l.tsv")
    yield Case("lexicon: a line of one field", lexicon, write("l.tsv", "cat\tchat\ndog\n"))


def corpus_cases() -> Iterator[Case]:
    """Files of sentence pairs."""
    tsv = f"{MINIMAL}data: {{train: {{file: a.tsv}}}}\n".replace("data: {corpus: starter}\n", "")
    aligned = tsv.replace("file: a.tsv", "src: a.en, tgt: a.fr")

    def case(what: str, config: str, **files: str | bytes) -> Case:
        def prepare() -> None:
            Path("x.yaml").write_text(config, encoding="utf-8")
            for name, content in files.items():
                write(name.replace("_", "."), content)()

        return Case(f"corpus: {what}", ("train", "--config", "x.yaml", "--run", "new"), prepare)

    yield case("one file is longer", aligned, a_en="a\nb\nc\n", a_fr="d\ne\n")
    yield case("a line without a tab", tsv, a_tsv="a\tb\nc\n")
    yield case("not UTF-8", tsv, a_tsv=b"a\tb\n\xff\tc\n")
    yield case("no pairs", tsv, a_tsv="")
    yield case("no pair with two sides", tsv, a_tsv="a\t\n\tb\n")
    yield case("not there", tsv)
    yield case("cut short", tsv.replace("a.tsv", "a.gz"), a_gz=gzip.compress(b"a\tb\n" * 99)[:-9])
    yield case("not an archive", tsv.replace("a.tsv", "a.zip"), a_zip=b"<html>404</html>")
    for name in ("b.gz", "b.zip"):
        write_config = write("x.yaml", tsv.replace("a.tsv", name))
        yield Case(
            f"corpus: 100 MB in a small .{name[2:]}",
            ("train", "--config", "x.yaml", "--run", "new"),
            lambda name=name, first=write_config: (first(), bomb(name)()),  # type: ignore[misc]
        )


def run_cases() -> Iterator[Case]:
    """Run directories; tests/test_hostile_run.py has more of them, with the right checksums."""
    translate = ("translate", "--run", "run", "a")
    model = RUN / MODEL
    yield Case("run: weights cut short", translate, lambda: os.truncate(model, 500))
    yield Case("run: no safetensors file", translate, lambda: model.write_bytes(b"\x80\x04K\x01."))
    huge = (1 << 40).to_bytes(8, "little") + b"{}"
    yield Case("run: a header of a terabyte", translate, lambda: model.write_bytes(huge))

    def hole() -> None:
        entry = {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}
        header = json.dumps({"a": entry}).encode()
        model.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))

    yield Case("run: a hole between tensors", translate, hole)

    def outside() -> None:
        os.rename(model, "elsewhere")
        model.symlink_to(Path("elsewhere").resolve())

    yield Case("run: a link out of it", translate, outside)

    def larger() -> None:
        forge_config(RUN, lambda text: text.replace("hidden: 7", "hidden: 700000"))

    yield Case("run: config.yaml asks for terabytes", translate, larger)
    tokenizer = RUN / "tokenizer" / "src.vocab.txt"
    yield Case("run: another tokenizer", translate, lambda: tokenizer.write_bytes(b"PK\x03\x04"))
    yield Case("run: not one", ("translate", "--run", ".", "a"))
    yield Case("run: a name beside it", ("translate", "--run", "rum", "a"))


CASES = [*config_cases(), *text_cases(), *corpus_cases(), *run_cases()]


@contextlib.contextmanager
def empty_folder() -> Iterator[Path]:
    """A new working directory with a run in it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            make_run()
            yield Path(name)
        finally:
            os.chdir(before)


def answer(case: Case) -> str:
    """The answer of `nmt` to a case, in one line."""
    with empty_folder() as folder:
        case.prepare()
        result = CliRunner().invoke(app, list(case.command), input=case.stdin)
    if result.exit_code not in (0, 2) or (result.exit_code and not result.stderr):
        raise SystemExit(f"{case.what}: exit code {result.exit_code}: {result.exception!r}")
    said = [line for line in result.stderr.split("\n") if line]
    errors = [line for line in said if line.startswith("error: ")]
    if result.exit_code:
        shown = "; ".join(f"`{line.removeprefix('error: ')}`" for line in errors)
    else:
        n_lines = result.stdout.count("\n")
        shown = f"{n_lines} line{'s' * (n_lines != 1)}"
        cut = [line for line in said if "cut at the length bound" in line]
        shown += "".join(f", {line.partition(' of ')[0]} cut at the length bound" for line in cut)
    resolved = str(folder.resolve())
    return shown.replace(f"{resolved}/", "").replace(resolved, ".").replace("|", "\\|")


def command_line(case: Case) -> str:
    """The command as typed in a shell, for reading only."""
    words = [ascii(word)[1:-1] if "\udce9" in word else word for word in case.command]
    shown = " ".join(f"'{word}'" if " " in word or "\\" in word else word for word in words)
    return f"`nmt {shown}{' < text' if case.stdin else ''}`"


def table() -> str:
    """The table of the page."""
    rows = [f"| {case.what} | {command_line(case)} | {answer(case)} |" for case in CASES]
    return "\n".join(["| input | command | answer |", "|---|---|---|", *rows]) + "\n"


def main() -> None:
    """Print the table, or put it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into docs/untrusted-input.md")
    new_table = table()
    if not parser.parse_args().write:
        print(new_table, end="")
        return
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{new_table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Check that README.md and docs/ display what their commands print and draw; name stale pages.

    python scripts/check_docs.py                 # entries without training
    python scripts/check_docs.py --runs runs     # also those that read trained runs: runs/starter
    python scripts/check_docs.py --slow          # also those that train: half an hour
    python scripts/check_docs.py positions       # selected entries

docs/made.yaml lists the commands and their products. Each entry runs in a new folder with one
thread. Files are compared, pictures by their pixels, and figures with the page's text, within the
entry's tolerance. A transcript, a command behind `$ ` and its answer, is compared line by line.
Times are not compared: they depend on the machine. The exit code is 1 if anything is stale.
"""

import argparse
import difflib
import json
import os
import re
import shlex
import shutil
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pydantic import Field, RootModel

from nmt.errors import ConfigError, did_you_mean
from nmt.settings.base import Config
from nmt.settings.config_file import load_file

ROOT = Path(__file__).resolve().parents[1]
LIST = Path("docs/made.yaml")
LEVELS = 40
"""The largest difference of a pixel, of 255, that counts as the same."""
SHARE = 0.001
"""The share of pixels that may differ: rounding may move a label or a line by one."""

FIGURE = r"[-+]?\d[\d,]*(?:\.\d+|(?= ?%))"
"""What a tolerance applies to: decimals and percentages. Other digits are text: counts, names."""
TIME = r"[\d.,]+ (?:s|min|tokens/s|GiB|threads?)\b"
"""The figures of a transcript that depend on the machine."""
VARIES = "  # varies"
"""Ends a line of a transcript that no two machines need to print alike: it is not compared."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Entry(Config):
    """The products of one command, or of several in a row; see docs/made.yaml."""

    needs: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    same: dict[str, Path] = Field(default={})
    share: float = SHARE
    transcripts: tuple[Path, ...] = ()
    page: Path | None = None
    json_file: str | None = Field(default=None, alias="json")
    output: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    lines_of: str | None = None
    within: dict[str, float] = Field(default={})
    slow: bool = False

    def tolerance(self, before: str, after: str) -> float:
        """Return how far a figure between two texts may differ, by the key that ends nearest."""
        keys = [key for key in self.within if key not in ("", "%") and key in before]
        if keys:
            return self.within[max(keys, key=lambda key: before.rfind(key) + len(key))]
        percentage = "%" in self.within and after.lstrip().startswith("%")
        return self.within.get("%" if percentage else "", 0.0)


class PageFormat(string.Formatter):
    """str.format as the pages write figures.

    `.1%` gives 96.8 %, `.1fM` millions without their six zeros, `.0fpow` powers: 2 · 10⁻⁷.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.endswith("%"):
            return format(value, format_spec).replace("%", " %")
        if format_spec.endswith("M"):
            return format(value / 1e6, format_spec[:-1])
        if format_spec.endswith("pow"):
            digits, power = f"{value:.{format_spec[1:-4]}e}".split("e")
            return f"{digits} · 10{str(int(power)).translate(_RAISED)}"
        return format(value, format_spec)


def main(words: Sequence[str] | None = None) -> int:
    """Run the commands and print what is stale; 1 if anything is, 2 if the input is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("names", nargs="*", help="entries of the list; none: all that are not slow")
    add("--slow", action="store_true", help="the slow ones too")
    add("--runs", type=Path, help="the folder of the trained runs of the pages")
    add("--root", type=Path, default=ROOT, help="the checkout whose docs are checked")
    options = parser.parse_args(words)
    try:
        entries = read_list(options.root / LIST)
        names = _chosen(entries, options.names, options.slow, options.runs)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    is_stale = False
    for name in names:
        problems = list(check(entries[name], options.root, options.runs))
        print(f"{name}: {'stale' if problems else 'ok'}", *problems, sep="\n  ", flush=True)
        is_stale |= bool(problems)
    return int(is_stale)


def read_list(path: Path) -> dict[str, Entry]:
    """The entries by name. Raises ConfigError (file:line: key) for an invalid entry."""
    return load_file(path, (), RootModel[dict[str, Entry]]).root


def _chosen(
    entries: Mapping[str, Entry], names: Sequence[str], slow: bool, runs: Path | None
) -> list[str]:
    """Return the names to check. Raises ConfigError for an unknown name and a missing run."""
    for name in names:
        if name not in entries:
            hint = did_you_mean(name, entries)
            raise ConfigError(f"got '{name}', allowed: {', '.join(entries)}{hint}")
    selected = list(names) or [
        name
        for name, entry in entries.items()
        if (slow or not entry.slow) and (runs or not entry.needs)
    ]
    for name in selected:
        for run in entries[name].needs:
            if runs is None or not (runs / run).is_dir():
                raise ConfigError(f"{name}: needs the run {run}: train it, and give --runs FOLDER")
    return selected


def check(entry: Entry, root: Path, runs: Path | None = None) -> Iterator[str]:
    """Yield a line for each stale file or text."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run in entry.needs:
            assert runs is not None
            shutil.copytree(runs / run, folder / "runs" / run)
        printed = output = ""
        for command in entry.run:
            done = _perform(command, folder, root)
            if done.returncode:
                yield _failure(command, done)
                return
            printed += done.stdout
            output += done.stderr + done.stdout
        (folder / "stdout").write_text(printed, encoding="utf-8")
        for new, page in entry.same.items():
            yield from _compare(folder / new, root / page, page, entry.share)
        if entry.page is not None:
            text = (root / entry.page).read_text(encoding="utf-8")
            try:
                for expected in _wanted(entry, folder, output):
                    if not agrees(expected, text, entry):
                        near = _nearest(expected, text)
                        yield f"{entry.page}: does not say: {expected}{near}"
            except LookupError as error:
                yield f"{entry.page}: {error.args[0]}"
        for page in entry.transcripts:
            for transcript in transcripts((root / page).read_text(encoding="utf-8")):
                for problem in _check_transcript(*transcript, folder, root, entry):
                    yield f"{page}: {problem}"


def transcripts(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command behind `$ ` in a fenced block with the lines of its answer."""
    for block in re.findall(r"^```\w*\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        part = r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)"
        for command, answer in re.findall(part, block, re.MULTILINE):
            lines = [line for line in answer.splitlines() if line.strip() not in ("", "...")]
            if lines:
                yield command.replace("\\\n", " "), lines


def _check_transcript(
    command: str, answer: Sequence[str], folder: Path, root: Path, entry: Entry
) -> Iterator[str]:
    """Yield a line for each displayed line that the command does not print."""
    if command.startswith("nmt train"):  # it was trained before; its log has what was printed
        run = re.search(r"--run runs/(\S+)", command)
        name = run[1] if run else "starter"
        output = (folder / "runs" / name / "train.log").read_text(encoding="utf-8")
        output = re.sub(r"^\d{4}-\S+ \S+ ", "", output, flags=re.MULTILINE)  # the date
    else:
        done = _perform(command, folder, root)
        if done.returncode:
            yield _failure(command, done)
            return
        output = done.stderr + done.stdout
    for line in answer:
        expected = re.sub(TIME, "*", line.replace("...", "*"))
        if VARIES not in line and not agrees(expected, output, entry, lines=True):
            yield f"{command}: does not print: {line}{_nearest(line, output)}"


def _failure(command: str, done: subprocess.CompletedProcess[str]) -> str:
    last = (done.stderr.strip() or "no message").splitlines()[-1]
    return f"{command}: exit code {done.returncode}: {last}"


def _perform(command: str, folder: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the page by this Python; {root} is the checkout, NAME=value a variable."""
    words = shlex.split(command.replace("{root}", str(root)))
    variables: dict[str, str] = {}
    while "=" in words[0]:
        name, _, variables[name] = words.pop(0).partition("=")
    python = {"nmt": [sys.executable, "-m", "nmt"], "python": [sys.executable]}
    if words[0] in python:
        words[:1] = python[words[0]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _compare(new: Path, old: Path, name: Path, allowed: float) -> Iterator[str]:
    """Yield a line if the files differ."""
    if not new.is_file() or not old.is_file():
        yield f"{name}: {'not made by the command' if old.is_file() else 'missing'}"
    elif old.suffix == ".png":
        pixels = [
            np.asarray(Image.open(path).convert("RGB"), dtype=np.int16) for path in (new, old)
        ]
        if pixels[0].shape != pixels[1].shape:
            yield f"{name}: another size than the picture drawn now"
        elif (share := (np.ptp(pixels, axis=0).max(axis=-1) > LEVELS).mean()) > allowed:
            yield f"{name}: {share:.1%} of the pixels differ from the picture drawn now"
    elif new.read_bytes() != old.read_bytes():
        yield f"{name}: differs from what is made now"


def _wanted(entry: Entry, folder: Path, output: str) -> list[str]:
    """The texts that the page must have. Raises LookupError where a figure is missing."""
    expected: list[str] = []
    if entry.lines_of is not None:
        expected += filter(None, (folder / entry.lines_of).read_text("utf-8").splitlines())
    figures: dict[Any, object] = {}
    if entry.json_file is not None:

        def with_numbers(pairs: Sequence[tuple[str, object]]) -> dict[str | int, object]:
            """Make numeric keys integers, which str.format looks up."""
            return {int(key) if key.isdecimal() else key: value for key, value in pairs}

        text = (folder / entry.json_file).read_text("utf-8")
        content = json.loads(text, object_pairs_hook=with_numbers)
        figures |= content.get("numbers", content)
    for pattern in entry.output:
        match = re.search(pattern, output)
        if match is None:
            raise LookupError(f"the output has nothing like {pattern!r}")
        for name, text in match.groupdict().items():
            try:
                figures[name] = float(text)
            except ValueError:
                figures[name] = text
    for line in entry.says:
        try:
            expected.append(PageFormat().vformat(line, (), figures))
        except LookupError as error:
            raise LookupError(f"the figures have no {error}, for {line}") from error
    return expected


def agrees(expected: str, text: str, entry: Entry, lines: bool = False) -> bool:
    """Return whether `text` has `expected`, with figures within the entry's tolerance.

    `*` matches anything within a line or a cell. With `lines` a whole line must match.
    """
    anything, space = (r".*?", r"[^\S\n]+") if lines else (r"[^|\n]*?", r"\s+")
    parts = re.split(f"({FIGURE})", " ".join(expected.split()))
    pattern = "".join(
        f"({FIGURE})" if i % 2 else re.escape(part).replace(r"\*", anything).replace(r"\ ", space)
        for i, part in enumerate(parts)
    )
    places = range(1, len(parts), 2)
    tolerances = [entry.tolerance("".join(parts[:i]), parts[i + 1]) + 1e-9 for i in places]
    return any(
        all(
            abs(_figure(parts[i]) - _figure(figure)) <= tolerance
            for i, figure, tolerance in zip(places, match.groups(), tolerances, strict=True)
        )
        for match in re.finditer(f"^\\s*{pattern}\\s*$" if lines else pattern, text, re.MULTILINE)
    )


def _figure(text: str) -> float:
    return float(text.replace(",", ""))


def _nearest(expected: str, text: str) -> str:
    near = difflib.get_close_matches(expected, text.splitlines(), n=1, cutoff=0.5)
    return f", the nearest line is: {near[0]}" if near else ""


if __name__ == "__main__":
    sys.exit(main())

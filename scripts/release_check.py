"""Build sdist and wheel, install each into an empty environment, and run the demo shortened.

    python scripts/release_check.py    # make release-check

Everything runs outside of the checkout, in a folder whose name has a space and an accent, and with
a console that is not UTF-8. The answer is a line for each archive: its size and the seconds of
each step. Exit code 1 where a step fails. The wheel is then given the extra `serve`, and `nmt
serve` must answer a request as `nmt translate` does.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALL = ("-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt")
RUN, STEPS = "runs/démo 1", 50
SENTENCE = "My sister bought a red car."


class StepError(Exception):
    """A step that failed: its command and the end of what it said."""


def main() -> int:
    """Check both archives; the exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve() / "à vérifier"
        folder.mkdir()
        try:
            for archive in build(folder):
                size = f"{archive.stat().st_size / 1e6:.2f} MB"
                seconds = (f"{name} {s:.0f} s" for name, s in check(archive))
                print(archive.name, size, *seconds, sep="  ", flush=True)
        except StepError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def build(folder: Path) -> list[Path]:
    """The sdist and a wheel that is built from it, as an index would have them."""
    python = environment(folder / "builder")
    run(python, *INSTALL, "hatchling", folder=folder)
    dist = folder / "dist"
    run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", dist, folder=ROOT)
    (sdist,) = dist.glob("*.tar.gz")
    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", dist, sdist, folder=folder)
    (wheel,) = dist.glob("*.whl")
    return [wheel, sdist]


def check(archive: Path) -> Iterator[tuple[str, float]]:
    """Install `archive` into an empty environment and use it; the seconds of each step."""
    folder = archive.parent.parent / archive.suffix.removeprefix(".")
    folder.mkdir()
    python = environment(folder / "environment")
    nmt = python.with_name("nmt.exe" if os.name == "nt" else "nmt")
    picture = ("--format", "png", "--out", "é.png")
    train = (nmt, "train", "--config", "starter", "--run", RUN)
    commands: dict[str, tuple[object, ...]] = {
        "install": (python, *INSTALL, archive),
        "version": (nmt, "--version"),
        "first translation": (nmt, "translate", SENTENCE),  # by a built-in model
        "train": (*train, "--steps", STEPS),
        # The recipe's learning rate falls until the last update: another end is another schedule.
        "resume": (*train, "--steps", STEPS + 10, "--allow-change"),
        "eval": (nmt, "eval", "--bleu", "--run", RUN, "--beam", 1, "--no-bootstrap"),
        "translate": (nmt, "translate", "--run", RUN, SENTENCE),
        "attention": (nmt, "attention", "--run", RUN, *picture, SENTENCE),
        "card": (nmt, "card", RUN, "--out", "README.md"),
        "doctor": (nmt, "doctor"),
    }
    calls = {name: partial(run, *command, folder=folder) for name, command in commands.items()}
    if archive.suffix == ".whl":
        extra = partial(run, python, *INSTALL, f"{archive}[serve]", folder=folder)
        calls |= {"extra serve": extra, "serve": partial(answer_of_server, nmt, folder)}
    answers = {}
    for name, call in calls.items():
        start = time.monotonic()
        answers[name] = call().strip()
        yield name, time.monotonic() - start
    if len(answers["translate"].splitlines()) != 1:
        raise StepError(f"nmt translate: expected a line, got {answers['translate']!r}")
    if str(ROOT) in answers["doctor"]:
        raise StepError(f"nmt is imported from the checkout: {answers['doctor']}")
    for file in ("é.png", "README.md"):
        if not (folder / file).is_file():
            raise StepError(f"{file}: was not written")
    if answers.get("serve", answers["translate"]) != answers["translate"]:
        raise StepError(f"nmt serve: {answers['serve']!r}, nmt translate: {answers['translate']!r}")


def answer_of_server(nmt: Path, folder: Path) -> str:
    """The translation of SENTENCE by a new `nmt serve`, which must exit with 0 after SIGTERM.

    Windows ends it without asking.
    """
    command = [str(nmt), "serve", "--run", RUN, "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env=console(), stdout=pipe, stderr=pipe, encoding="utf-8"
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            if not url.startswith("http://127.0.0.1:"):
                server.terminate()
                raise StepError(f"nmt serve: expected its address, got {server.communicate()}")
            body = json.dumps({"q": SENTENCE, "source": "en", "target": "fr"}).encode()
            asked = urllib.request.Request(  # noqa: S310 - the address begins with http
                f"{url}/translate", body, {"content-type": "application/json"}
            )
            with urllib.request.urlopen(asked, timeout=300) as answer:  # noqa: S310 - as above
                translated: str = json.load(answer)["translatedText"]
        finally:
            server.terminate()
    if server.returncode and os.name != "nt":
        raise StepError(f"nmt serve: exit code {server.returncode} after SIGTERM")
    return translated


def console() -> dict[str, str]:
    """The variables of a console as in 1990, of a machine without the checkout."""
    stored = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**stored, "PYTHONIOENCODING": "ascii"}


def environment(folder: Path) -> Path:
    """The Python of a new environment with pip and nothing else."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def run(*command: object, folder: Path) -> str:
    """Return the output of a command; StepError where it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=console(),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise StepError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{said}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

"""Every command, option, key and linked file that the pages tell a user to type exists."""

import doctest
import pkgutil
import re
import shlex
from pathlib import Path

import pytest
from cli.helpers import COMMAND

from nmt.config import load_config
from nmt.lab.experiments import find
from nmt.settings.config_file import load_overrides

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "lab").glob("*.md")),
]
LOG = sorted((ROOT / "docs" / "log").glob("*.md"))
"""History: its links are followed, its commands are those of its day."""


def test_every_command_shown_exists() -> None:
    """Every `nmt ...` in a code block or between backticks."""
    shown: list[tuple[str, list[str]]] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", "  ")
        for number, line in enumerate(text.split("\n"), start=1):
            commands = [line.removeprefix("$ ")] if re.match(r"(\$ )?nmt [a-z]", line) else []
            commands += re.findall(r"`(nmt [a-z][^`]*)`", line)
            for command in commands:
                words = shlex.split(command.split("  ")[0], comments=True)
                shown.append((f"{page.name}:{number}", words[1:]))
    assert len(shown) > 100
    for where, words in shown:
        command, rest = COMMAND, words
        while hasattr(command, "commands") and rest:
            names = rest[0].split("|")  # `nmt corpus list|fetch|check`
            assert set(names) <= set(command.commands), f"{where}: nmt {' '.join(words)}"
            command, rest = command.commands[names[0]], rest[1:]
        rest = rest[: rest.index("--")] if "--" in rest else rest
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        flags = {word.split("=")[0].strip("[]") for word in rest if word.startswith("--")}
        assert flags <= known, f"{where}: {flags - known}"


def test_every_setting_shown_is_right() -> None:
    """Every `--set KEY=VALUE`, except in the generated commands.md, which has general forms."""
    settings: set[tuple[str, str]] = set()  # the experiment of the laboratory or nothing first
    for page in (page for page in PAGES if page.name != "commands.md"):
        for line in page.read_text(encoding="utf-8").split("\n"):
            experiment = re.search(r"nmt lab ([a-z][a-z-]*)", line)
            for quoted, bare in re.findall(r"--set (?:'([^']+)'|([a-z_.]+=[^\s`]+))", line):
                settings.add((experiment[1] if experiment else "", quoted or bare))
    for experiment, setting in sorted(settings):
        if experiment:
            load_overrides([setting], find(experiment).options)
        else:
            load_config(Path("starter"), [setting])


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if ">>> " in page.read_text("utf-8")],
    ids=lambda page: page.name,
)
@pytest.mark.usefixtures("kinds")
def test_every_example_prints_what_its_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8").replace("```", "")  # an empty line ends an output
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    failures: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=failures.append)
    assert examples.examples
    assert not failures, "".join(failures)


def _anchors(page: Path) -> set[str]:
    """The names that a page's headings have in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_linked_file_and_heading_is_there() -> None:
    for page in [*PAGES, *LOG]:
        links = re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8"))
        for target, anchor in links:
            file = page.parent / target if target else page
            assert file.exists(), f"{page}: {target}"
            assert not anchor or anchor in _anchors(file), f"{page}: {target}#{anchor}"


def test_every_module_shown_defines_the_name() -> None:
    """Such as `MultiHead` of `nmt.models...`."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for path in re.findall(r"`(nmt\.[\w.]+)`", text):
            pkgutil.resolve_name(path)
        for name, path in re.findall(r"`(\w+)[\w.]*` (?:of|\()\s?`(nmt\.[\w.]+)`", text):
            assert getattr(pkgutil.resolve_name(path), name).__module__ == path


def test_pages_and_code_agree() -> None:
    """The pages that the code names are there, and one shows a script as it is."""
    for file in [*(ROOT / "nmt").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")]:
        text = file.read_text(encoding="utf-8")
        for page in re.findall(r"docs/[\w/-]+\.(?:md|yaml|json)", text):
            assert (ROOT / page).exists(), f"{file}: {page}"
    text = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    assert (ROOT / "scripts" / "onnx_translate.py").read_text(encoding="utf-8") in text

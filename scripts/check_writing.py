"""List what plain technical writing avoids and a program can find; exit with 1 if there is any.

    python scripts/check_writing.py [PATH ...]

A docstring begins with a verb or a noun phrase; a local variable is a noun; a test's name is short
enough for `-k`; a commit's subject fits a line of `git log`.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("nmt", "scripts", "tests")
DOCSTRING = re.compile(r"(That|Those|What|Which|Who|See [A-Z]\w+(\.\w+)*\.$)\b")
ADJECTIVES = {"found", "own", "each", "given", "kept", "made", "whole", "chosen"}
TEST_NAME = 60
SUBJECT = 72

_Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def faults(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the description of each fault of a file."""
    for node in ast.walk(tree):
        if isinstance(node, _Definition) and (text := ast.get_docstring(node)):
            first = text.split("\n", 1)[0]
            if DOCSTRING.match(first):
                yield node.body[0].lineno, f"docstring: {first}"
        if isinstance(node, _Function) and node.name.startswith("test_"):
            if len(node.name) > TEST_NAME:
                yield node.lineno, f"test name of {len(node.name)} characters: {node.name}"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node.id in ADJECTIVES:
                yield node.lineno, f"variable: {node.id}"
        elif isinstance(node, ast.arg) and node.arg in ADJECTIVES:
            yield node.lineno, f"parameter: {node.arg}"


def subjects() -> Iterator[str]:
    """Yield the long subjects of the commits since this script was added."""
    git = ("git", "-C", str(ROOT), "log", "--no-merges")
    added = [*git, "--diff-filter=A", "--format=%H", "--", __file__]
    for base in subprocess.run(added, capture_output=True, text=True).stdout.split()[-1:]:
        log = subprocess.check_output([*git, "--format=%h %s", f"{base}..HEAD"], text=True)
        for line in log.splitlines():
            if len(line.partition(" ")[2]) > SUBJECT:
                yield f"commit {line}"


def main() -> int:
    """Print the faults of the paths of the command line, or of all; return the exit code."""
    roots = [Path(argument) for argument in sys.argv[1:]] or [ROOT / name for name in FOLDERS]
    paths = [path for root in roots for path in ([root] if root.is_file() else root.rglob("*.py"))]
    lines = [
        f"{path}:{line}: {fault}"
        for path in sorted(paths)
        for line, fault in sorted(faults(ast.parse(path.read_text(encoding="utf-8"))))
    ]
    lines += subjects()
    print(*lines, sep="\n", end="\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())

"""No file that nmt reads can run code: nothing unpickles, evaluates or builds objects from YAML."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "nmt").rglob("*.py"))

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
CALLS = {
    *("eval", "exec", "compile", "__import__"),
    *("torch.load", "torch.save", "torch.jit.load"),
    *("yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load"),
}
LOADERS = {"Loader", "FullLoader", "UnsafeLoader", "CLoader", "CFullLoader", "CUnsafeLoader"}


def dangers(source: str) -> Iterator[str]:
    """Every construct in `source` by which data could become code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{a.name}" for a in node.names}
            yield from names & CALLS
            if (node.module or "").split(".")[0] in MODULES:
                yield str(node.module)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            safe = {f"Loader=yaml.{loader}" for loader in ("BaseLoader", "SafeLoader")}
            if name in CALLS and not safe & {ast.unparse(k) for k in node.keywords}:
                yield name
            for keyword in node.keywords:
                value = ast.unparse(keyword.value)
                if (keyword.arg, value) in {("allow_pickle", "True"), ("weights_only", "False")}:
                    yield f"{keyword.arg}={value}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml":
            yield from {node.attr} & LOADERS


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_runs_code_from_data(path: Path) -> None:
    assert list(dangers(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import os, dill as d",
        "x = torch.load(f)",
        "from torch import load",
        "yaml.load(f, Loader=yaml.Loader)",
        "yaml.load(f, Loader=MyLoader)",
        "class L(yaml.FullLoader): pass",
        "eval(text)",
        "np.load(f, allow_pickle=True)",
    ],
)
def test_the_search_finds_what_it_is_for(source: str) -> None:
    assert list(dangers(source))


def test_what_only_looks_like_it_is_allowed() -> None:
    assert not list(dangers("model.eval(); safetensors.torch.load(raw); np.load(f); re.compile(p)"))
    assert not list(dangers("yaml.load(text, Loader=yaml.BaseLoader)"))
    assert len(FILES) > 40

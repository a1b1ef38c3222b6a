"""No file that nmt reads can run code: nothing unpickles, evaluates or builds objects from YAML."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "nmt").rglob("*.py"))

MODULES = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"),
    *("subprocess", "runpy", "code", "codeop", "imp", "dbm", "xmlrpc"),
}
CALLS = {
    *("eval", "exec", "compile", "__import__"),
    *("torch.load", "torch.save", "torch.jit.load", "torch.hub.load"),
    *("yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.safe_load"),
    *("os.system", "os.popen", "os.startfile", "pty.spawn", "tempfile.mktemp"),
    *("ctypes.CDLL", "ctypes.cdll.LoadLibrary"),
    *("tarfile.open", "shutil.unpack_archive"),
    *("ssl._create_unverified_context", "ssl._create_default_https_context"),
}
METHODS = {"extract", "extractall", "run_path", "run_module"}
FAMILIES = ("os.exec", "os.spawn", "os.posix_spawn")
LOADERS = {"Loader", "FullLoader", "UnsafeLoader", "CLoader", "CFullLoader", "CUnsafeLoader"}
KEYWORDS = {
    *(("allow_pickle", "True"), ("weights_only", "False"), ("shell", "True")),
    *(("verify_mode", "ssl.CERT_NONE"), ("check_hostname", "False")),
}
ALLOWED = {
    "nmt/ops/native/library.py": ["ctypes.CDLL"],
    "nmt/device.py": ["ctypes.CDLL"],
}
"""mallopt and malloc_trim are asked of the C library that this process runs on already; and the
library that was compiled when nmt was installed is loaded from the package, if its checksum is
right."""


def dangers(source: str) -> Iterator[str]:
    """Every construct in `source` by which data could become code, or a file leave its place."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            yield from {f"{node.module}.{a.name}" for a in node.names} & CALLS
            if (node.module or "").split(".")[0] in MODULES:
                yield str(node.module)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in CALLS or name.startswith(FAMILIES) or name.split(".")[-1] in METHODS:
                yield name
            keywords = {(keyword.arg, ast.unparse(keyword.value)) for keyword in node.keywords}
            yield from (f"{name}={value}" for name, value in keywords & KEYWORDS)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml":
            yield from {node.attr} & LOADERS
        elif isinstance(node, ast.Name) and node.id in ("eval", "exec", "__import__"):
            yield f"{node.id}, whatever it is called by"


def test_no_module_runs_code_from_data() -> None:
    dangerous = {
        path.relative_to(ROOT).as_posix(): list(dangers(path.read_text(encoding="utf-8")))
        for path in FILES
    }
    assert {path: names for path, names in dangerous.items() if names} == ALLOWED
    assert len(FILES) > 40


def test_the_search_finds_what_it_is_for_and_nothing_else() -> None:
    for source in (
        *("from pickle import loads", "import os, dill as d", "from torch import load"),
        *("os.execv(path, args)", "class L(yaml.FullLoader): pass", "x = torch.load(f)"),
        *("run(text, shell=True)", "run_it = eval", "archive.extractall(folder)"),
    ):
        assert list(dangers(source)), source
    harmless = "model.eval(); safetensors.torch.load(raw); np.load(f); re.compile(p); yaml.dump(x)"
    assert not list(dangers(harmless))

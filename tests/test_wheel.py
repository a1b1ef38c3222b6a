"""Installations in new environments: a portable wheel, and the source with no compiler at hand."""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from training.toy import toy_config, write_reversal

from nmt.config import dump_config
from nmt.ops.native import manifest

ROOT = Path(__file__).parents[1]
PORTABLE = manifest.PORTABLE.get(platform.machine(), {})
NEEDS_COMPILER = pytest.mark.skipif(
    not (shutil.which("c++") or shutil.which("g++")), reason="no C++ compiler"
)
pytestmark = pytest.mark.slow


def _run(*command: str | Path, folder: Path | None = None, **environment: str) -> str:
    """Without PYTHONPATH and outside of ROOT, so that the installed nmt is imported."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder or environment.get("HOME", "/"),
        env={**variables, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _pip(*arguments: str | Path, **environment: str) -> None:
    _run(sys.executable, "-m", "pip", "--quiet", *arguments, **environment)


class Environment:
    """A virtual environment with this one's packages but for nmt, and with no compiler on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "home").mkdir(parents=True)
        (folder / "empty").mkdir()
        self.variables = {"PATH": str(folder / "empty"), "HOME": str(folder / "home")}
        _run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
        self.python = folder / "venv" / "bin" / "python"
        (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def install(self, *what: str | Path) -> None:
        _pip("--python", self.python, "install", "--no-deps", *what, **self.variables)

    def nmt(self, *arguments: str | Path) -> str:
        return _run(self.folder / "venv" / "bin" / "nmt", *arguments, **self.variables)

    def doctor(self) -> dict[str, str]:
        """Return the lines of `nmt doctor` by label."""
        lines = self.nmt("doctor").splitlines()
        facts = {line[:14].rstrip(): line[14:] for line in lines}
        assert Path(facts["package in"]).is_relative_to(self.folder)
        assert facts["compiler"].startswith("none")
        return facts


def _train(environment: Environment, folder: Path) -> None:
    """A short training, and a translation by it."""
    write_reversal(folder, n_train=64, n_test=6)
    (folder / "toy.yaml").write_text(dump_config(toy_config(folder, train={"epochs": 1})))
    environment.nmt("train", "--config", folder / "toy.yaml", "--run", folder / "run")
    assert environment.nmt("translate", "--run", folder / "run", "a b c")


@NEEDS_COMPILER
def test_a_portable_wheel_has_native_code(tmp_path: Path) -> None:
    _pip("wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT, NMT_PORTABLE_WHEEL="1")
    (wheel,) = tmp_path.glob("attention_nmt-*.whl")
    assert "-py3-none-" in wheel.name
    assert "linux_" in wheel.name
    assert wheel.name.endswith(f"_{platform.machine()}.whl")
    names = zipfile.ZipFile(wheel).namelist()
    libraries = [name for name in names if name.endswith(".so")]
    assert len(libraries) == len(PORTABLE)
    environment = Environment(tmp_path / "environment")
    environment.install(wheel)
    facts = environment.doctor()
    assert facts["native code"].removeprefix("compiled for ") in PORTABLE
    assert facts["backend fp32"].startswith("native: ")
    _train(environment, tmp_path)


def test_the_source_installs_without_a_compiler(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(ROOT)
    facts = environment.doctor()
    why_not = "when nmt was installed, no C++ compiler was found (c++ or g++)"
    assert facts["native code"] == f"none: {why_not}"
    assert facts["backend fp32"].startswith("fused: ")
    _train(environment, tmp_path)


@NEEDS_COMPILER
def test_the_source_archive_compiles_for_this_processor(tmp_path: Path) -> None:
    builder = Environment(tmp_path / "builder")
    builder.install("hatchling", "pathspec", "pluggy", "packaging", "trove-classifiers")
    command = (builder.python, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path)
    _run(*command, folder=ROOT, **builder.variables)
    (archive,) = tmp_path.glob("attention_nmt-*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert "hatch_build.py" in names
    native = manifest.FOLDER.parent
    sources = [*native.glob("*.cpp"), *native.glob("*.h")]
    assert {f"nmt/ops/native/{path.name}" for path in sources} <= names
    assert not [name for name in names if name.endswith((".so", manifest.NAME))]
    _pip("wheel", "--no-deps", "--wheel-dir", tmp_path, archive)
    (wheel,) = tmp_path.glob("attention_nmt-*.whl")
    environment = Environment(tmp_path / "environment")
    environment.install(wheel)
    assert environment.doctor()["native code"] == "compiled for this processor"

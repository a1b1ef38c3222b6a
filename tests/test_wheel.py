"""Installations in new environments: a portable wheel, and the source with no compiler at hand."""

import os
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from test_hatch_build import NEEDS_COMPILER
from training.toy import toy_config, write_reversal

from nmt.config import dump_config
from nmt.ops.native import manifest

ROOT = Path(__file__).parents[1]
PORTABLE = manifest.PORTABLE_VARIANTS.get(platform.machine(), {})
pytestmark = pytest.mark.slow


def _run(*command: str | Path, folder: Path | None = None, **environment: str) -> str:
    """Without PYTHONPATH and outside of ROOT, so that the installed nmt is imported."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    folder = folder or Path(environment.get("HOME", "/"))
    return subprocess.check_output(command, text=True, cwd=folder, env={**variables, **environment})


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

    def assert_trains(self) -> None:
        """A short training, and a translation by it."""
        write_reversal(self.folder, n_train=64, n_test=6)
        config = toy_config(self.folder, train={"epochs": 1})
        (self.folder / "toy.yaml").write_text(dump_config(config))
        self.nmt("train", "--config", self.folder / "toy.yaml", "--run", self.folder / "run")
        assert self.nmt("translate", "--run", self.folder / "run", "a b c")

    def doctor(self) -> dict[str, str]:
        """Return the lines of `nmt doctor` by label."""
        lines = self.nmt("doctor").splitlines()
        facts = {line[:14].rstrip(): line[14:] for line in lines}
        assert Path(facts["package in"]).is_relative_to(self.folder)
        assert facts["compiler"].startswith("none")
        return facts


@NEEDS_COMPILER
def test_a_portable_wheel_of_the_source_archive_trains(tmp_path: Path) -> None:
    builder = Environment(tmp_path / "builder")
    builder.install("hatchling", "pathspec", "pluggy", "packaging", "trove-classifiers")
    command = (builder.python, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path)
    _run(*command, folder=ROOT, **builder.variables)
    (archive,) = tmp_path.glob("attention_nmt-*.tar.gz")
    with tarfile.open(archive) as opened:
        compiled = [name for name in opened.getnames() if name.endswith((".so", manifest.NAME))]
    assert compiled == []
    _pip("wheel", "--no-deps", "--wheel-dir", tmp_path, archive, NMT_PORTABLE_WHEEL="1")
    (wheel,) = tmp_path.glob("attention_nmt-*.whl")
    assert re.search(rf"-py3-none-.*linux_.*{platform.machine()}\.whl$", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    assert len([name for name in names if name.endswith(".so")]) == len(PORTABLE)
    environment = Environment(tmp_path / "environment")
    environment.install(wheel)
    facts = environment.doctor()
    assert facts["native code"].removeprefix("compiled for ") in PORTABLE
    assert facts["backend fp32"].startswith("native: ")
    environment.assert_trains()


def test_the_source_installs_without_a_compiler(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(ROOT)
    facts = environment.doctor()
    why_not = "when nmt was installed, no C++ compiler was found (c++ or g++)"
    assert facts["native code"] == f"none: {why_not}"
    assert facts["backend fp32"].startswith("fused: ")
    environment.assert_trains()

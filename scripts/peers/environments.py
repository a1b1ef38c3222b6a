"""A virtual environment for each toolkit, always with our version of torch."""

import json
import subprocess
import sys
from pathlib import Path

from nmt.errors import NMTError
from nmt.storage.atomic import write_text
from peers.toolkit import Environment, Toolkit

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"


def python_of(toolkit: Toolkit, envs: Path) -> Path:
    """The interpreter that runs the toolkit. Raises NMTError where it was not set up."""
    if toolkit.environment is None:
        return Path(sys.executable)
    folder = envs / toolkit.environment.name
    python = folder / "bin" / "python"
    if not python.is_file():
        raise NMTError(f"{folder}: not set up; first: bench_peers.py setup")
    return python


def set_up(toolkit: Toolkit, envs: Path) -> list[str]:
    """Create the environment, torch first, at its pinned version; return a line for each step."""
    if toolkit.environment is None:
        return []
    folder = envs / toolkit.environment.name
    if not (folder / "bin" / "python").is_file():
        _run([sys.executable, "-m", "venv", str(folder)])
    for arguments in install_commands(toolkit.environment):
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *arguments])
    (packages,) = (folder / "lib").glob("python*/site-packages")
    stand_ins = toolkit.environment.stand_ins
    for module, reason in stand_ins.items():
        write_text(packages / f"{module}.py", f'"""An empty stand-in: {reason}."""\n')
    return [
        *(f"{folder}: {name} {version}" for name, version in _versions(folder).items()),
        *(f"{module}.py: a stand-in, {reason}" for module, reason in stand_ins.items()),
    ]


def install_commands(environment: Environment) -> list[list[str]]:
    """The arguments of pip, call by call."""
    pinned = ["--constraint", str(CONSTRAINTS)]
    calls = [[*pinned, "torch", "numpy"], [*pinned, *environment.packages]]
    if environment.alone:
        calls.append(["--no-deps", *environment.alone])
    return calls


def _versions(folder: Path) -> dict[str, str]:
    listed = _run([str(folder / "bin" / "python"), "-m", "pip", "list", "--format=json"])
    versions = {found["name"].lower(): found["version"] for found in json.loads(listed)}
    wanted = {"torch", "numpy", "opennmt-py", "joeynmt", "pymarian"}
    return {name: versions[name] for name in sorted(wanted & set(versions))}


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NMTError(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout

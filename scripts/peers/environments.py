"""A virtual environment for each toolkit, always with our version of torch."""

import subprocess
import sys
from pathlib import Path

from nmt.errors import NMTError
from nmt.storage.atomic import write_text
from peers.toolkit import Environment, Toolkit

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"


def python_of(toolkit: Toolkit, envs: Path) -> Path:
    """Return the interpreter that runs the toolkit. Raises NMTError where it was not set up."""
    if toolkit.environment is None:
        return Path(sys.executable)
    python = envs / toolkit.environment.name / "bin" / "python"
    if not python.is_file():
        raise NMTError(f"{python.parents[1]}: not set up; first: bench_peers.py setup")
    return python


def set_up(environment: Environment, envs: Path) -> str:
    """Create the environment, torch first at its pinned version; return the packages in it."""
    folder = envs / environment.name
    python = str(folder / "bin" / "python")
    if not Path(python).is_file():
        _run([sys.executable, "-m", "venv", str(folder)])
    for arguments in install_commands(environment):
        _run([python, "-m", "pip", "install", "--quiet", *arguments])
    (packages,) = (folder / "lib").glob("python*/site-packages")
    for module, reason in environment.stand_ins.items():
        write_text(packages / f"{module}.py", f'"""An empty stand-in: {reason}."""\n')
    return _run([python, "-m", "pip", "freeze"])


def install_commands(environment: Environment) -> list[list[str]]:
    """Return the arguments of pip, call by call."""
    pinned = ["--constraint", str(CONSTRAINTS)]
    calls = [[*pinned, "torch", "numpy"], [*pinned, *environment.packages.split()]]
    if environment.alone:
        calls.append(["--no-deps", environment.alone])
    return calls


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NMTError(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout

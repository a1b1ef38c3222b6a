"""Files of the repository that other tools than Python read: they parse, and say what is true."""

import re
from pathlib import Path
from typing import Any

import yaml

import nmt

ROOT = Path(__file__).parents[1]


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version() -> None:
    assert load("CITATION.cff")["version"] == nmt.__version__


def test_the_image_needs_no_root_and_copies_the_sources() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    build, final = text.split("\nFROM ")[1:]
    assert re.search(r'\nUSER [1-9]\d*\n(?:.*\n)?ENTRYPOINT [^\n]*"nmt", "serve"', final, re.DOTALL)
    assert ".[serve]" in build
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    entries = {line[1:].rstrip("/") for line in ignored if line.startswith("!")}
    assert all((ROOT / path).exists() for path in entries)
    assert {"nmt", "configs", "data/starter", "hatch_build.py", "pyproject.toml"} <= entries


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
JOBS = [job for w in WORKFLOWS for job in load(str(w.relative_to(ROOT)))["jobs"].values()]


def test_workflows_are_bounded_and_name_their_rights() -> None:
    pinned = re.compile(r" *- uses: [\w./-]+@[0-9a-f]{40}  # v[0-9.]+")  # which nobody can move
    for workflow in WORKFLOWS:
        content = load(str(workflow.relative_to(ROOT)))
        assert content[True]  # YAML 1.1 reads the key `on` so
        assert content["permissions"] == {"contents": "read"}
        for job in content["jobs"].values():
            needs = job.get("needs", [])
            assert set([needs] if isinstance(needs, str) else needs) <= set(content["jobs"])
        lines = workflow.read_text(encoding="utf-8").splitlines()
        assert [x for x in lines if "uses:" in x and not pinned.fullmatch(x)] == []
    for job in JOBS:
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            # A ref's name may hold shell commands: it comes in by the environment only.
            assert "${{" not in step.get("run", "")


def test_only_the_job_that_publishes_gets_an_identity() -> None:
    jobs = load(".github/workflows/release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "release"
    assert set(jobs["publish"]["needs"]) == {"native", "smoke"}

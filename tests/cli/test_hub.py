"""Runs on the Hub: pushed to, and loaded from, a local server with the routes that this takes."""

import base64
import hashlib
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cli.helpers import nmt, refusal

from nmt.errors import CheckpointError, ConfigError
from nmt.runs.find import split_checkpoint
from nmt.translation.translator import Translator


class Hub(BaseHTTPRequestHandler):
    """One repository, whose commits are named 000...1, 000...2 and so on."""

    commits: list[dict[str, bytes]]

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, content: bytes, code: int = 200, **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self) -> None:
        match = re.fullmatch(r"/ana/small/resolve/([^/]+)/(.+)", self.path)
        if match is None:
            return self.answer(b"", 404, X_Error_Code="RepoNotFound")
        revision, file = match.groups()
        number = len(self.commits) if revision == "main" else int(revision)
        if not 0 < number <= len(self.commits):
            return self.answer(b"", 404, X_Error_Code="RevisionNotFound")
        content = self.commits[number - 1].get(file)
        if content is None:
            return self.answer(b"", 404, X_Error_Code="EntryNotFound")
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        return self.answer(content, ETag=etag, X_Repo_Commit=f"{number:040d}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        address = f"http://{self.headers['Host']}/ana/small"
        if self.path == "/api/repos/create":
            reply: dict[str, object] = {"url": address}
        elif self.path == "/api/validate-yaml":
            reply = {"errors": [], "warnings": []}
        elif self.path == "/api/models/ana/small/preupload/main":
            names = [file["path"] for file in json.loads(body)["files"]]
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            reply = {"files": [{"path": name, **modes} for name in names]}
        elif self.path == "/api/models/ana/small/commit/main":
            lines = [json.loads(line) for line in body.splitlines()]
            files = [line["value"] for line in lines if line["key"] == "file"]
            self.commits.append({f["path"]: base64.b64decode(f["content"]) for f in files})
            oid = f"{len(self.commits):040d}"
            reply = {"commitOid": oid, "commitUrl": f"{address}/commit/{oid}"}
        else:
            return self.answer(b"", 404, X_Error_Code="RepoNotFound")
        return self.answer(json.dumps(reply).encode(), Content_Type="application/json")


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, bytes]]]:
    """The commits on a Hub of this process, each the content of its files."""
    reason = "needs huggingface_hub: pip install 'attention-nmt[hub]'"
    constants = pytest.importorskip("huggingface_hub.constants", reason=reason)
    handler = type("Handler", (Hub,), {"commits": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("HF_TOKEN", "hf_token")
        monkeypatch.setenv("no_proxy", "*")
        yield handler.commits  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


def translations(run: str | Path) -> list[list[float]]:
    """The scores of translations, which differ for other weights."""
    results = Translator.load(run, search={"n_best": 2}).translate(["a b", "c"])
    return [[hypothesis.hypothesis.score for hypothesis in r.hypotheses] for r in results]


def test_a_pushed_run_translates_as_the_run_does(
    folder: Path, commits: list[dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nmt("runs", "push", "run", "--to", "ana/small").stdout.endswith(f"/commit/{1:040d}\n")
    assert set(commits[0]) == {"run.zip", "README.md"}
    assert b"--run hf:ana/small" in commits[0]["README.md"]
    nmt("runs", "push", "run", "--to", "ana/small", "--checkpoint", "step-000004")
    best, other = translations("run"), Translator.load("run", checkpoint="step-000004")
    assert translations("hf:ana/small") != best
    assert Translator.load("hf:ana/small").step == other.step
    assert translations(f"hf:ana/small@{1:040d}") == best
    lines = nmt("translate", "--run", "run", "a b", "c").stdout
    assert nmt("translate", "--run", f"hf:ana/small@{1:040d}", "a b", "c").stdout == lines
    nmt("translate", "--run", "run", "--rerank", f"hf:ana/small@{1:040d}", "a b")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert translations(f"hf:ana/small@{1:040d}") == best


def test_the_hub_reads_the_metadata_of_the_card(
    folder: Path, commits: list[dict[str, bytes]]
) -> None:
    from huggingface_hub import ModelCard

    nmt("eval", "--run", "run", "--bleu", "--beam", "1", "--no-bootstrap")
    nmt("card", "run", "--license", "cc0-1.0", "--out", "card.md")
    nmt("runs", "push", "run", "--to", "ana/small", "--card", "card.md")
    assert commits[0]["README.md"] == (folder / "card.md").read_bytes()
    data = ModelCard(commits[0]["README.md"].decode()).data
    assert (data.language, data.license, data.model_name) == (["en", "de"], "cc0-1.0", "toy")
    assert (data.library_name, data.pipeline_tag) == ("attention-nmt", "translation")
    [result] = data.eval_results
    assert (result.task_type, result.metric_type) == ("translation", "bleu")


def test_what_the_hub_refuses_is_one_line(folder: Path, commits: list[dict[str, bytes]]) -> None:
    nmt("runs", "push", "run", "--to", "ana/small")
    commits.append({"README.md": b""})
    forged = io.BytesIO()
    with zipfile.ZipFile(forged, "w") as archive:
        archive.writestr("run/../../evil.py", "")
    commits.append({"run.zip": forged.getvalue()})
    for name, reason in {
        "ana/other": "Repository Not Found",
        f"ana/small@{7:040d}": "Revision Not Found",
        f"ana/small@{2:040d}": "Entry Not Found",
        f"ana/small@{3:040d}": "is none of its files",
        "": "Repo id",
        "../small": "Repo id",
        "a/b/c": "Repo id",
        "ana/\udc80\n\0": "Repo id",
    }.items():
        with pytest.raises(CheckpointError, match=reason) as error:
            Translator.load(f"hf:{name}")
        assert "\n" not in str(error.value).removeprefix(f"hf:{name}")
    assert refusal("translate", "--run", "hf:ana/other", "a").startswith("hf:ana/other: ")
    assert refusal("runs", "push", "run", "--to", "a/b/c").startswith("a/b/c: ")
    for command in ("card", "calibrate"):
        assert "a packed run" in refusal(command, "--run", "hf:ana/small")


def test_without_the_package_a_name_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"needs huggingface_hub: pip install .*\[hub\]"):
        Translator.load("hf:ana/small")
    assert "[hub]" in refusal("runs", "push", "run", "--to", "ana/small")


@pytest.mark.parametrize("name", ["hf:ana/small", "hf:ana/small@v1", "hf:@"])
def test_an_at_sign_in_a_name_of_the_hub_begins_a_revision(name: str) -> None:
    assert split_checkpoint(Path(name)) == (Path(name), None)

"""Runs on the Hub: pushed to, and loaded from, a local server with the routes that this takes."""

import base64
import hashlib
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal
from corpora.test_download import serving

from nmt.errors import CheckpointError, ConfigError
from nmt.runs.find import split_checkpoint
from nmt.translation.translator import Translator

FIRST, SECOND, THIRD, NONE = (f"hf:ana/small@{number:040d}" for number in (1, 2, 3, 9))
"""Names of the commits of the only repository."""

REASON = "needs huggingface_hub: pip install 'attention-nmt[hub]'"


class Hub(BaseHTTPRequestHandler):
    commits: list[dict[str, bytes]]

    def log_message(self, *_: object) -> None: ...

    def answer(self, content: bytes, code: int = 200, **headers: str) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content_Length": str(len(content))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content if self.command != "HEAD" else b"")

    def do_GET(self) -> None:
        match = re.fullmatch(r"/ana/small/resolve/(?:main|(\d+))/(.+)", self.path)
        number = int(match[1] or len(self.commits)) if match else 0
        files = self.commits[number - 1] if 0 < number <= len(self.commits) else {}
        if match and match[2] in files:
            tag = hashlib.sha256(files[match[2]]).hexdigest()
            return self.answer(files[match[2]], ETag=f'"{tag}"', X_Repo_Commit=f"{number:040d}")
        missing = "Entry" if files else "Revision" if match else "Repo"
        return self.answer(b"", 404, X_Error_Code=f"{missing}NotFound")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
        values = [json.loads(line) for line in lines]
        reply: dict[str, object] = {"url": f"http://{self.headers['Host']}/ana/small"}
        if self.path.endswith("/preupload/main"):
            mode = {"uploadMode": "regular", "shouldIgnore": False}
            reply = {"files": [{"path": file["path"], **mode} for file in values[0]["files"]]}
        elif self.path.endswith("/commit/main"):
            files = [line["value"] for line in values if line["key"] == "file"]
            self.commits.append({file["path"]: base64.b64decode(file["content"]) for file in files})
            oid = f"{len(self.commits):040d}"
            reply = {"commitOid": oid, "commitUrl": f"{reply['url']}/commit/{oid}"}
        self.answer(json.dumps(reply).encode())


@pytest.fixture
def commits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, bytes]]]:
    """The commits on a Hub of this process, each the content of its files."""
    constants = pytest.importorskip("huggingface_hub.constants", reason=REASON)
    handler = type("Handler", (Hub,), {"commits": []})
    with serving(handler) as url:
        template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
        monkeypatch.setenv("HF_TOKEN", "hf_token")
        monkeypatch.setenv("no_proxy", "*")
        yield handler.commits  # type: ignore[attr-defined]


def test_a_pushed_run_translates_as_the_run_does(commits, monkeypatch) -> None:
    assert nmt("runs", "push", "run", "--to", "ana/small").stdout.endswith(f"/commit/{1:040d}\n")
    assert set(commits[0]) == {"run.zip", "README.md"}
    assert b"--run hf:ana/small" in commits[0]["README.md"]
    Path("card.md").write_text("mine")
    earlier = ("--checkpoint", "step-000004", "--card", "card.md")
    nmt("runs", "push", "run", "--to", "ana/small", *earlier)
    assert commits[1]["README.md"] == b"mine"
    assert [Translator.load(name).step for name in ("hf:ana/small", FIRST)] == [4, 6]
    scores = nmt("translate", "--run", "run", "a b", "c", "--json").stdout
    assert nmt("translate", "--run", FIRST, "a b", "c", "--json").stdout == scores
    nmt("translate", "--run", "run", "--rerank", FIRST, "a b")
    assert FIRST in nmt("compare", "run", FIRST).stdout
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert Translator.load(FIRST).step == 6


def test_the_hub_reads_the_metadata_of_a_card(folder: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason=REASON)
    nmt("eval", "--run", "run", "--bleu", "--beam", "1", "--no-bootstrap")
    data = hub.ModelCard(nmt("card", "run", "--license", "cc0-1.0").stdout).data
    assert (data.language, data.license, data.model_name) == (["en", "de"], "cc0-1.0", "toy")
    assert [result.metric_type for result in data.eval_results] == ["bleu"]


def test_what_the_hub_refuses_is_one_line(commits: list[dict[str, bytes]]) -> None:
    nmt("runs", "push", "run", "--to", "ana/small")
    forged = io.BytesIO()
    with zipfile.ZipFile(forged, "w") as archive:
        archive.writestr("run/../../evil.py", "")
    commits.extend([{"README.md": b""}, {"run.zip": forged.getvalue()}])
    reasons = {"hf:ana/other": "Repository Not Found", NONE: "Revision Not Found"}
    reasons |= {SECOND: "Entry Not Found", THIRD: "not a packed run: it contains"}
    reasons |= dict.fromkeys(("hf:", "hf:../a", "hf:a/\udc80\n\0"), "Repo id")
    for name, reason in reasons.items():
        with pytest.raises(CheckpointError, match=reason) as error:
            Translator.load(name)
        assert "\n" not in str(error.value).removeprefix(name)
    assert refusal("runs", "push", "run", "--to", "a/b/c").startswith("a/b/c: ")
    for command in ("card", "calibrate"):
        assert "a packed run" in refusal(command, "--run", FIRST)


def test_a_hub_out_of_reach_is_one_line_at_once(commits, monkeypatch) -> None:
    nmt("runs", "push", "run", "--to", "ana/small")
    nmt("translate", "--run", FIRST, "a")
    nowhere = "http://127.0.0.1:9"
    template = f"{nowhere}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", nowhere)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail(f"waits {seconds} s"))
    for command in (("translate", "a", "--run", SECOND), ("runs", "push", "run", "--to", "a/b")):
        error = refusal(*command)
        assert error.startswith(f"{command[-1]}: ")
        assert "cannot be reached" in error
    nmt("translate", "--run", FIRST, "a")  # from the cache


def test_without_the_package_a_name_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"needs huggingface_hub: pip install .*\[hub\]"):
        Translator.load("hf:ana/small")
    for name in ("hf:ana/small", "hf:ana/small@v1", "hf:@"):  # here @ is before a revision
        assert split_checkpoint(Path(name)) == (Path(name), None)

"""`nmt serve` as a process on loopback: the answers of `nmt translate`, and an orderly end."""

import json
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cli.helpers import nmt, refusal, untrained_run, write_lines
from serve.conftest import TEXTS
from serve_attack import start_server
from translation.small import PAIRS

from nmt.cli.commands import serve as serve_command
from nmt.device import process_bytes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_lines(home / "en", [pair.src_text for pair in PAIRS])
    write_lines(home / "fr", [pair.tgt_text for pair in PAIRS])
    return untrained_run(home, "tiny")


@pytest.fixture
def server(run: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process, port = start_server(run, stderr=subprocess.PIPE)
    yield process, f"http://127.0.0.1:{port}"
    process.kill()
    process.communicate()


def translated(run: Path) -> list[str]:
    return nmt("translate", "--run", run, *TEXTS).stdout.split("\n")[:-1]


def post(url: str, **asked: object) -> Any:
    body = json.dumps({"source": "en", "target": "fr", **asked}).encode()
    request = urllib.request.Request(f"{url}/translate", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def load(url: str, lines: list[str], n_clients: int, n_requests: int) -> None:
    """Ask for one sentence after another from several clients; every answer must be right."""
    pairs = list(zip(TEXTS, lines, strict=True))

    def ask(client: int) -> bool:
        asked = [pairs[(client + i) % len(pairs)] for i in range(n_requests)]
        return all(post(url, q=text)["translatedText"] == line for text, line in asked)

    with ThreadPoolExecutor(n_clients) as pool:
        assert all(pool.map(ask, range(n_clients)))


def test_answers_are_nmt_translates_and_sigterm_finishes_them(server, run) -> None:
    process, url = server
    lines = translated(run)
    load(url, lines, n_clients=8, n_requests=5)
    assert post(url, q="\n".join(TEXTS))["translatedText"] == "\n".join(lines)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(post, url, q=TEXTS * 28)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert answer.result(60)["translatedText"] == lines * 28
    assert (process.wait(30), process.stderr.read()) == (0, "tiny: en to fr\n")


def test_a_second_ctrl_c_ends_it_at_once(server) -> None:
    process, url = server
    with ThreadPoolExecutor() as pool:
        pool.map(lambda texts: post(url, q=texts), [TEXTS * 28] * 4)
        time.sleep(0.3)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
    assert (process.wait(), process.stderr.read()) == (130, "tiny: en to fr\n")


def test_without_the_extra_one_line_says_how_to_install_it(run, monkeypatch) -> None:
    monkeypatch.setattr(serve_command, "_PACKAGES", ("fastapi", "no_such_package"))
    error = refusal("serve", "--run", run)
    assert error == "nmt serve needs no_such_package: pip install 'attention-nmt[serve]'"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--host", "127.0.0.1", "--port", "PORT"], "Address already in use"),
        (["--api-keys", "KEYS"], "got a key of 5 characters, allowed: at least 16"),
        (["--run", "RUN", "--port", "0"], "--run: two runs are named '"),
        (["--glossary", "KEYS", "--port", "0"], "keys:1: expected source<TAB>target"),
    ],
)
def test_what_cannot_be_served_is_one_line(run, tmp_path, flags, expected) -> None:
    (tmp_path / "keys").write_text("# mine\n\nshort\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {"PORT": taken.getsockname()[1], "KEYS": tmp_path / "keys", "RUN": run}
        assert expected in refusal("serve", "--run", run, *(names.get(f, f) for f in flags))


def test_runs_of_one_folder_name_are_told_apart(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("nmt.serve.run.run", lambda app, listener: None)
    same, other = (shutil.copytree(run, tmp_path / name) for name in ("tiny", "b"))
    for folder, names in ((same, (run, same)), (other, ("tiny", "b"))):
        result = nmt("serve", "--run", run, "--run", folder, "--port", "0")
        assert result.stderr == "".join(f"{name}: en to fr\n" for name in names)


@pytest.mark.slow
def test_memory_stays_flat_under_load(server, run) -> None:
    """The second half of 40,000 requests adds less than a twentieth to the first."""
    process, url = server
    used = []
    for _ in range(2):
        load(url, translated(run), n_clients=20, n_requests=1000)
        used.append(process_bytes("RssAnon", process.pid))
    assert used[1] < 1.05 * used[0]

"""`nmt serve` as a process on loopback: the answers of `nmt translate`, and an orderly end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from serve.conftest import PAIRS, TEXTS
from serve_load import load
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.cli.commands import serve as serve_command
from nmt.config import RunConfig, TrainConfig
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.runs.directory import RunDirectory
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import WordConfig, train_tokenizers


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained run of a few words."""
    config = RunConfig(
        name="tiny",
        data=DataConfig(train=SplitConfig(src=Path("a.en"), tgt=Path("a.fr"))),
        tokenizer=WordConfig(min_freq=1),
        model=RNNConfig(embedding=5, hidden=7),
        train=TrainConfig(steps=1),
        search=SearchConfig(beam=3, max_length=9),
    )
    path = tmp_path_factory.mktemp("runs") / "tiny"
    directory = RunDirectory.create(path, config)
    tokenizers = train_tokenizers(config.tokenizer, PAIRS, "en", "fr", seed=1)
    tokenizers.save(directory.tokenizer_path)
    torch.manual_seed(2)
    model = build_model(config.model, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))
    tensors = {name: 3 * tensor for name, tensor in model.state_dict().items()}
    directory.checkpoint_folder.save(1, tensors, {}, {"step": 1})
    directory.checkpoint_folder.point({"best": 1, "last": 1})
    return path


@pytest.fixture
def server(run: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process, and its address."""
    command = [sys.executable, "-m", "nmt", "serve", "--run", str(run), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def post(url: str, **asked: object) -> Any:
    body = json.dumps({"source": "en", "target": "fr", **asked}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/translate", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_answers_are_nmt_translates_and_sigterm_finishes_them(
    server: tuple[subprocess.Popen[str], str], run: Path
) -> None:
    process, url = server
    assert url.startswith("http://127.0.0.1:")
    result = CliRunner().invoke(app, ["translate", "--run", str(run), *TEXTS])
    lines = result.stdout.split("\n")[:-1]
    assert len(lines) == len(TEXTS)
    pairs = list(zip(TEXTS, lines, strict=True))
    import asyncio

    counts = asyncio.run(load(int(url.rpartition(":")[2]), ("en", "fr"), pairs, 8, 1.0))
    assert (counts.lost, counts.n_wrong, counts.refused) == (0, 0, 0), counts.wrong
    assert len(counts.seconds) >= 8
    assert post(url, q="\n".join(TEXTS))["translatedText"] == "\n".join(lines)
    answers: list[Any] = []
    many = TEXTS * 28
    asking = threading.Thread(target=lambda: answers.append(post(url, q=many)))
    asking.start()
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    asking.join(60)
    assert [answer["translatedText"] for answer in answers] == [lines * 28]
    assert process.wait(30) == 0
    assert process.stderr is not None
    assert process.stderr.read() == "tiny: en to fr\n"


def test_libretranslate_s_client_works(
    server: tuple[subprocess.Popen[str], str], run: Path
) -> None:
    library = pytest.importorskip("libretranslatepy", reason="pip install libretranslatepy")
    _, url = server
    api = library.LibreTranslateAPI(url)
    result = CliRunner().invoke(app, ["translate", "--run", str(run), TEXTS[0]])
    assert api.translate(TEXTS[0], "en", "fr") == result.stdout.strip("\n")
    assert api.detect("Is") == [{"confidence": 0.0, "language": "en"}]
    assert api.languages() == [{"code": "en", "name": "English", "targets": ["fr"]}]


def test_without_the_extra_one_line_says_how_to_install_it(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_command, "_PACKAGES", ("fastapi", "no_such_package"))
    result = CliRunner().invoke(app, ["serve", "--run", str(run)])
    assert result.exit_code == 2
    assert result.stderr == (
        "error: nmt serve needs no_such_package: pip install 'attention-nmt[serve]'\n"
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--host", "127.0.0.1", "--port", "PORT"], "Address already in use"),
        (["--api-keys", "KEYS"], "got a key of 5 characters, allowed: at least 16"),
        (["--run", "RUN", "--port", "0"], "--run: two runs are named 'tiny'"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    run: Path, tmp_path: Path, flags: list[str], expected: str
) -> None:
    import socket

    keys = tmp_path / "keys"
    keys.write_text("# mine\n\nshort\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {"PORT": str(taken.getsockname()[1]), "KEYS": str(keys), "RUN": str(run)}
        arguments = [names.get(flag, flag) for flag in flags]
        result = CliRunner().invoke(app, ["serve", "--run", str(run), *arguments])
    assert result.exit_code == 2
    assert expected in result.stderr
    assert result.stderr.count("error: ") == 1


@pytest.mark.slow
def test_memory_stays_flat_under_load(server: tuple[subprocess.Popen[str], str], run: Path) -> None:
    """Two minutes of load: the second adds less than a twentieth to the first."""
    import asyncio

    from nmt.device import process_bytes

    process, url = server
    result = CliRunner().invoke(app, ["translate", "--run", str(run), *TEXTS])
    pairs = list(zip(TEXTS, result.stdout.split("\n")[:-1], strict=True))
    used = []
    for _ in range(2):
        counts = asyncio.run(load(int(url.rpartition(":")[2]), ("en", "fr"), pairs, 20, 60.0))
        assert (counts.lost, counts.n_wrong) == (0, 0), counts.wrong
        used.append(process_bytes("RssAnon", process.pid))
    assert None not in used
    assert os.path.exists(f"/proc/{process.pid}")
    assert used[1] < 1.05 * used[0]

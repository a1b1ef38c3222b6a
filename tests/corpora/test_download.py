"""A download against a server on this machine: whole, cut, refused, too big, redirected."""

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import ClassVar
from urllib.request import Request

import pytest

from nmt.corpora import download as module
from nmt.corpora.download import download
from nmt.errors import DataError

BODY = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(250)) * 25  # 200 kB


class Handler(BaseHTTPRequestHandler):
    """How a server of BODY treats its requests, and what it was asked."""

    cuts: ClassVar[list[int]]  # bytes after which each next answer is cut
    asked: ClassVar[list[str | None]]  # the Range of every request
    ranges, length, status, location = True, True, 200, ""
    odd_range = ""  # what the next answer to a Range says it is, once

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        says = type(self)
        wanted = self.headers.get("Range")
        says.asked.append(wanted)
        if says.status != 200:
            self.send_response(says.status)
            self.send_header("Location", says.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start, size = 0, len(BODY)
        if wanted and says.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if start < size else 416)
            told = f"{start}-{size - 1}/{size}" if start < size else f"*/{size}"
            self.send_header("Content-Range", says.odd_range or f"bytes {told}")
            says.odd_range = ""
        else:
            self.send_response(200)
        body = BODY[start:]
        # Before the answer: behind it, the test may set the cuts of the next one.
        sent = body[: says.cuts.pop(0)] if says.cuts else body
        if says.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(sent)


@pytest.fixture
def says() -> type[Handler]:
    """The behaviour of the server, for a test to set."""
    return type("Says", (Handler,), {"cuts": [], "asked": []})


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler] | Path) -> Iterator[str]:
    """Yield the address of a server that runs in a thread; of a folder, it serves the files."""
    if isinstance(handler, Path):
        handler = partial(Quiet, directory=str(handler))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def url(says: type[Handler], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    with serving(says) as address:
        yield f"{address}/file.zip"


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return tmp_path / "file.zip.part"


@pytest.mark.parametrize("length", [True, False])
def test_a_whole_download(url: str, part: Path, says: type[Handler], length: bool) -> None:
    """Without a checksum it does not go on from what is there; more than allowed is not kept."""
    part.write_bytes(b"something else")
    says.length = length
    download(url, part, len(BODY))
    assert part.read_bytes() == BODY
    assert says.asked == [None]
    with pytest.raises(DataError, match=rf"^{url}: more than the {len(BODY) - 1} bytes"):
        download(url, part, len(BODY) - 1)
    assert list(part.parent.iterdir()) == []


def test_a_cut_download_is_continued_where_it_was_cut(url, part, says) -> None:
    says.cuts = [70_000, 0, 50_000]
    download(url, part, len(BODY), resume=True)
    assert part.read_bytes() == BODY
    assert says.asked == [None, "bytes=70000-", "bytes=70000-", "bytes=120000-"]
    download(url, part, len(BODY), resume=True)  # complete, and not yet moved into place
    assert says.asked[-1] == f"bytes={len(BODY)}-"
    part.unlink()
    says.cuts = [1000] * module.TRIES
    with pytest.raises(DataError, match=rf"^{url}: the connection was cut \(tried 5 times\)$"):
        download(url, part, len(BODY), resume=True)
    assert part.stat().st_size == 5000


@pytest.mark.parametrize("ranges", [True, False])
def test_a_part_that_does_not_fit_is_dropped(url, part, says, ranges) -> None:
    """The server ignores the range, has less than that, or answers another one."""
    says.ranges = ranges
    for content, odd in ((BODY + b"more", ""), (BODY[:1000], "bytes 7-8/9")):
        part.write_bytes(content)
        says.odd_range = odd if ranges else ""
        download(url, part, len(BODY), resume=True)
        assert part.read_bytes() == BODY
        part.unlink()


def test_errors_name_the_address_and_the_reason(url: str, part: Path, says: type[Handler]) -> None:
    """Only https is allowed, and http on this machine."""
    says.status = 404
    with pytest.raises(DataError, match=rf"^{url}: HTTP 404 Not Found$"):
        download(url, part, len(BODY))
    with pytest.raises(DataError, match=r"^http://127\.0\.0\.1:9/x: .*[Rr]efused"):
        download("http://127.0.0.1:9/x", part, 10)
    others = ("http://x.org", "file:///x", "ftp://h/x", "https:x", "https://[")
    for address in (*others, "http://localhost.x.org"):
        problem = rf"^{re.escape(address)}: not an address to download from"
        with pytest.raises(DataError, match=problem):
            download(address, part, 10)


ELSEWHERE = ["file:///etc/passwd", "ftp://127.0.0.1/x", "https://x.invalid", "http://x.invalid/x"]


@pytest.mark.parametrize("location", [*ELSEWHERE, "/moved", "http://[", "/a b"])
def test_a_redirect_elsewhere_is_refused_in_one_line(url, part, says, location) -> None:
    """Also one in a circle, or nowhere."""
    says.status, says.location = 302, location
    reason = f"{location}.*(refused|not allowed)" if location in ELSEWHERE else ""
    with pytest.raises(DataError, match=rf"^{url}: [^\n]*{reason}[^\n]*$"):
        download(url, part, len(BODY))
    assert len(says.asked) < 20
    assert not part.exists()


def test_a_planted_link_is_never_written_through(url: str, part: Path) -> None:
    victim = part.with_name("victim")
    victim.write_text("mine")
    for resume in (True, False):
        part.unlink(missing_ok=True)
        part.symlink_to(victim)
        download(url, part, len(BODY), resume)
        assert part.read_bytes() == BODY
        assert victim.read_text() == "mine"


def test_https_never_becomes_anything_else() -> None:
    """Not even http on this machine, which would be allowed as the address to begin with."""
    request, headers, target = Request("https://x.org/a.zip"), HTTPMessage(), "http://127.0.0.1:9/x"
    with pytest.raises(DataError, match=rf"^https://x\.org/a\.zip: redirect to {target} refused"):
        module._CheckedRedirects().redirect_request(request, BytesIO(), 302, "", headers, target)

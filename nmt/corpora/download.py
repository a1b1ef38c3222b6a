"""Resumable downloads over https, with a size limit and no redirect to a different scheme."""

import http.client
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tqdm import tqdm

import nmt
from nmt.errors import DataError
from nmt.storage.atomic import open_no_follow

TRIES = 5  # attempts if the connection is cut
TIMEOUT_SECONDS = 30.0  # largest time without a received byte
CHUNK_BYTES = 1 << 16
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


def download(url: str, part: Path, max_bytes: int, resume: bool = False) -> None:
    """Download `url` to the file `part`. With `resume`, continue an interrupted download.

    Use `resume` only for files with a known checksum, since `part` may be of an older version.
    Raises DataError, which names the URL, for more than `max_bytes`, for an HTTP or network error,
    and after TRIES cut connections. It is also raised if the scheme is not https (or http on this
    machine), and if a redirect leads to a different scheme.
    """
    if not _is_allowed(url):
        raise DataError(f"{url}: not an address to download from, allowed: https://...")
    try:
        is_complete = any(_attempt(url, part, max_bytes, resume) for _ in range(TRIES))
    except urllib.error.HTTPError as error:
        error.close()
        # urllib's message about circular redirects has several lines.
        reason = " ".join(f"HTTP {error.code} {error.reason}".split())
        raise DataError(f"{url}: {reason}") from None
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        raise DataError(f"{url}: {reason}") from None
    except ValueError as error:  # a redirect to a malformed address
        raise DataError(f"{url}: {error}") from None
    if not is_complete:
        raise DataError(f"{url}: the connection was cut (tried {TRIES} times)")


def _is_allowed(url: str) -> bool:
    """Return whether `url` is https, or http on this machine."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:  # half an IPv6 address
        return False
    is_local = parts.scheme == "http" and parts.hostname in LOCAL_HOSTS
    return is_local or (parts.scheme == "https" and bool(parts.hostname))


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that follows redirects only if they keep the scheme and `_is_allowed` holds."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        schemes = {urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl)}
        if len(schemes) > 1 or not _is_allowed(newurl):
            fp.close()
            allowed = "the same scheme, https"
            raise DataError(f"{req.full_url}: redirect to {newurl} refused, allowed: {allowed}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _attempt(url: str, part: Path, max_bytes: int, resume: bool) -> bool:
    """Send one request, and return whether `part` is complete after it."""
    is_partial = resume and part.is_file() and not part.is_symlink()
    n_received = part.stat().st_size if is_partial else 0
    headers = {"User-Agent": f"nmt/{nmt.__version__}", "Accept-Encoding": "identity"}
    if n_received:
        headers["Range"] = f"bytes={n_received}-"
    opener = urllib.request.build_opener(_CheckedRedirects)
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (checked: _is_allowed)
    try:
        response = opener.open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not n_received:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{n_received}":
            return True  # complete, but not yet moved into place
        part.unlink()
        return False
    with response:
        content_range = response.headers.get("Content-Range", "")
        if response.status == 206 and not content_range.startswith(f"bytes {n_received}-"):
            part.unlink()
            return False
        return _receive(response, part, n_received if response.status == 206 else 0, max_bytes)


def _receive(response: http.client.HTTPResponse, part: Path, start: int, max_bytes: int) -> bool:
    """Append the body to the `start` bytes of `part`, and return whether `part` is complete."""
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if length.isdecimal() else None
    size = start
    too_big = f"{response.url}: more than the {max_bytes} bytes that the catalogue allows"
    if total is not None and total > max_bytes:
        part.unlink(missing_ok=True)
        raise DataError(f"{too_big}: {total}")
    if not start:
        part.unlink(missing_ok=True)
    name = part.name.removesuffix(".part")
    with (
        open_no_follow(part, append=start > 0) as file,
        # disable=None: a bar on a terminal, nothing in a pipe
        tqdm(total=total, initial=start, desc=name, unit="B", unit_scale=True, disable=None) as bar,
    ):
        while chunk := response.read1(CHUNK_BYTES):
            size += len(chunk)
            if size > max_bytes:
                file.close()
                part.unlink()
                raise DataError(too_big)
            file.write(chunk)
            bar.update(len(chunk))
    return total is None or size == total

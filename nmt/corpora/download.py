"""Download of a file over https: resumed, bounded in size, never redirected to another scheme."""

import http.client
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tqdm import tqdm

import nmt
from nmt.errors import DataError
from nmt.storage.atomic import part_stream

TRIES = 5  # of a connection that is cut
TIMEOUT_SECONDS = 30.0  # without a byte
CHUNK_BYTES = 1 << 16
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


def download(url: str, part: Path, max_bytes: int, resume: bool = False) -> None:
    """Download `url` into the file `part`; with `resume`, go on where an earlier one was cut.

    Only a file whose checksum is known may be resumed: then a part of another version is found.
    Raises DataError, which names the address, for a scheme other than https (http on this machine
    only), a redirect to another scheme, more than `max_bytes`, an HTTP error, or after TRIES cut
    connections.
    """
    if not _is_allowed(url):
        raise DataError(f"{url}: not an address to download from, allowed: https://...")
    try:
        is_complete = any(_attempt(url, part, max_bytes, resume) for _ in range(TRIES))
    except urllib.error.HTTPError as error:
        error.close()
        # urllib's message about redirects in a circle has several lines.
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
    """Whether `url` is https, or http on this machine."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:  # half an IPv6 address
        return False
    local = parts.scheme == "http" and parts.hostname in LOCAL_HOSTS
    return local or (parts.scheme == "https" and bool(parts.hostname))


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    # The base class has refused all but http, https and ftp by now.
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """As the base class, but the scheme may not change: https never becomes anything else."""
        schemes = {urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl)}
        if len(schemes) > 1 or not _is_allowed(newurl):
            fp.close()
            raise DataError(
                f"{req.full_url}: redirect to {newurl} refused, allowed: the same scheme, https"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _attempt(url: str, part: Path, max_bytes: int, resume: bool) -> bool:
    """Send one request. Returns whether `part` is complete after it."""
    is_begun = resume and part.is_file() and not part.is_symlink()
    have = part.stat().st_size if is_begun else 0
    headers = {"User-Agent": f"nmt/{nmt.__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    opener = urllib.request.build_opener(_CheckedRedirects)
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (checked: _is_allowed)
    try:
        response = opener.open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return True  # complete, but not yet moved into place
        part.unlink()
        return False
    with response:
        answered = response.headers.get("Content-Range", "")
        if response.status == 206 and not answered.startswith(f"bytes {have}-"):
            part.unlink()
            return False
        return _receive(response, part, have if response.status == 206 else 0, max_bytes)


def _receive(response: http.client.HTTPResponse, part: Path, start: int, max_bytes: int) -> bool:
    """Append the body to the first `start` bytes of `part`. Returns whether all of it came."""
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if length.isdecimal() else None
    size = start
    too_big = f"{response.url}: more than the {max_bytes} bytes that the catalogue allows"
    if not start or (total is not None and total > max_bytes):
        part.unlink(missing_ok=True)
    if total is not None and total > max_bytes:
        raise DataError(f"{too_big}: {total}")
    name = part.name.removesuffix(".part")
    with (
        part_stream(part, append=start > 0) as file,
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

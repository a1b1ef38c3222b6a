"""The hosts by which a server may be called, and the origins whose pages may call it.

A page of another origin can send a form to a server on this machine without asking the browser
(cross-site request forgery). A page whose name begins to resolve to this machine is of the
server's own origin for the browser (DNS rebinding). The first is seen in `Origin`, the second in
`Host`.
"""

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers


class Origins:
    """The rules for `Host` and `Origin`; `cors` has the origins of other pages, or `*` for all."""

    def __init__(self, cors: Sequence[str] = (), host: str = "localhost") -> None:
        self._cors = {origin.rstrip("/").lower() for origin in cors}
        self._names = {host.lower(), *(_name(origin.partition("://")[2]) for origin in self._cors)}

    def problem(self, headers: Headers) -> str | None:
        """Return the reason for which a request with these headers is refused, if any."""
        if "*" in self._cors:
            return None
        host = headers.get("host", "").lower()
        if not self._is_own(_name(host)):
            return f"host: got '{host[:80]}', allowed: the address of this server"
        origin = headers.get("origin", "").lower()
        if not origin or origin in self._cors or origin.partition("://")[2] == host:
            return None
        return f"origin: got '{origin[:80]}', allowed: the pages of this server"

    def _is_own(self, name: str) -> bool:
        """Return whether no foreign page can be called so.

        A name without a dot is of this machine or its network, and an address is never resolved.
        """
        if name in self._names or not set(".:") & set(name):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _name(netloc: str) -> str:
    """Return the host of `host:port` or `[address]:port`, in lower case."""
    if netloc.startswith("["):
        return netloc[1:].partition("]")[0]
    return netloc.partition(":")[0].rstrip(".")

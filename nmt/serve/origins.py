"""The host names under which a server may be called, and the origins whose pages may call it.

In cross-site request forgery, a page of another origin, named by the header `Origin`, sends a form
to this server. In DNS rebinding, a foreign host name, which the header `Host` names, resolves to
this machine, so that a browser takes the server for the page's own.
"""

import ipaddress

from starlette.datastructures import Headers

from nmt.serve.options import ServerOptions


def origin_problem(headers: Headers, options: ServerOptions) -> str | None:
    """Return the reason to refuse a request with these headers, or None if it is allowed."""
    cors = {origin.rstrip("/").lower() for origin in options.cors}
    if "*" in cors:
        return None
    host = headers.get("host", "").lower()
    names = {options.host.lower(), *(_name(origin.partition("://")[2]) for origin in cors)}
    if _name(host) not in names and not _is_local(_name(host)):
        return f"host: got '{host[:80]}', allowed: the address of this server"
    origin = headers.get("origin", "").lower()
    if not origin or origin in cors or origin.partition("://")[2] == host:
        return None
    return f"origin: got '{origin[:80]}', allowed: the pages of this server"


def _is_local(name: str) -> bool:
    """Return whether `name` cannot be the host name of a foreign page.

    A name without a dot belongs to this machine or its network. An address is never resolved.
    """
    if not set(".:") & set(name):
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

"""`nmt serve`: translation over HTTP."""

import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.models import ComputeOptions, ModelOptions, SearchOptions
from nmt.cli.shared.options import GlossaryFile
from nmt.errors import ConfigError, pip_install
from nmt.serve.options import ServerOptions, read_keys

_PACKAGES = ("fastapi", "uvicorn", "python_multipart", "prometheus_client")  # of the extra `serve`


def serve(
    *,
    models: ModelOptions,
    host: Annotated[str, "Address to listen on."] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0: any free port.")] = 5000,
    api_keys: Annotated[
        Path | None, "File of API keys, one a line; translations then need a key."
    ] = None,
    cors: Annotated[
        list[str] | None,
        "Origin whose pages may call the server, as https://example.org, or * for any.",
    ] = None,
    max_characters: Annotated[
        int, Option(min=1, help="Maximum characters of a request.")
    ] = ServerOptions.characters,
    max_sentences: Annotated[
        int, Option(min=1, help="Maximum sentences of a request.")
    ] = ServerOptions.sentences,
    max_waiting: Annotated[
        int, Option(min=1, help="Maximum sentences waiting for a model; more get status 429.")
    ] = ServerOptions.waiting,
    time_limit: Annotated[
        float, Option(min=0.1, help="Maximum seconds of a request.")
    ] = ServerOptions.seconds,
    glossary: GlossaryFile = None,
    search: SearchOptions,
    compute: ComputeOptions,
) -> None:
    """Serve translations over HTTP, with a web page.

    The server has LibreTranslate's API, and its own API with attention under /v1. Several --run are
    served side by side. The address is printed on stdout once the server accepts requests. Ctrl-C
    or SIGTERM ends it after the running requests.
    """
    missing = [package for package in _PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        raise ConfigError(f"nmt serve needs {', '.join(missing)}: {pip_install('serve')}")
    if models.weights is not None:
        raise ConfigError("--weights: several runs are served side by side, not as an ensemble")
    runs = [compute.with_search(run, search.by_key()) for run in models.open(compute, builtin=True)]

    from nmt.serve import run as server
    from nmt.serve.app import make_app

    options = ServerOptions(
        characters=max_characters,
        sentences=max_sentences,
        waiting=max_waiting,
        seconds=time_limit,
        keys=read_keys(api_keys) if api_keys else frozenset(),
        cors=tuple(cors or ()),
        host=host,
    )
    with server.listen(host, port) as listener:
        folders = [run.path.resolve().name for run in runs]
        names = [r.name if folders.count(n) > 1 else n for n, r in zip(folders, runs, strict=True)]
        loaded = [compute.load([run], models.checkpoint) for run in runs]
        translators = list(zip(names, loaded, strict=True))
        if glossary is not None:
            if len({translator.languages for _, translator in translators}) > 1:
                raise ConfigError("--glossary: got several language pairs, allowed: one")
            for _, translator in translators:
                translator.use_glossary(glossary)
        app = make_app(translators, options, say)
        for name, translator in translators:
            say(f"{name}: {' to '.join(translator.languages)}")
        is_local = host in ("localhost", "::1") or host.startswith("127.")
        if not (options.keys or is_local):
            say(f"note: anyone who can reach {host} may translate; --api-keys requires a key")
        typer.echo(server.url_of(listener))
        sys.stdout.flush()
        server.run(app, listener)

"""A small random translator, and a client of an application that serves it."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from starlette.testclient import TestClient
from translation.small import TEXTS as ALL_TEXTS
from translation.small import translator_of

from nmt.search.search_config import SearchConfig
from nmt.serve.app import make_app
from nmt.serve.options import ServerOptions, digest
from nmt.translation.translator import Translator

TEXTS = [text for text in ALL_TEXTS if text]

Serve = Callable[..., contextlib.AbstractContextManager[TestClient]]


@pytest.fixture(scope="session")
def translator() -> Translator:
    return translator_of(search=SearchConfig(max_length=9, beam=4))


class Slow(Translator):
    """A translator whose next calls wait for `go`."""

    def __init__(self, other: Translator) -> None:
        super().__init__(other.model, other.tokenizers, other.device, other.search)
        self.go, self.started = threading.Event(), threading.Event()
        self.seen: list[list[str]] = []

    def translate(self, texts, *args, **keys):  # type: ignore[no-untyped-def]
        texts = list(texts)
        self.seen.append(texts)
        self.started.set()
        assert self.go.wait(30)
        if "raise" in texts:
            raise RuntimeError("a secret of the server")
        return super().translate(texts, *args, **keys)


@pytest.fixture
def slow(translator: Translator) -> Iterator[Slow]:
    slow_translator = Slow(translator)
    yield slow_translator
    slow_translator.go.set()


@pytest.fixture
def serve(translator: Translator) -> Serve:
    """Serves translators (by default the small one, as `tiny`) with these limits and keys."""

    @contextlib.contextmanager
    def start(
        translators: Sequence[tuple[str, Translator]] = (),
        keys: Sequence[str] = (),
        cors: Sequence[str] = (),
        **limits: float,
    ) -> Iterator[TestClient]:
        named = translators or [("tiny", translator)]
        digests = frozenset(map(digest, keys))
        options = ServerOptions(**limits, keys=digests, cors=tuple(cors))  # type: ignore[arg-type]
        with TestClient(make_app(named, options), raise_server_exceptions=False) as client:
            yield client

    return start


@pytest.fixture
def client(serve: Serve) -> Iterator[TestClient]:
    with serve() as test_client:
        yield test_client

"""A small random translator, and a client of an application that serves it."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from devices import HERE
from starlette.testclient import TestClient

from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.search.search_config import SearchConfig
from nmt.serve.app import make_app
from nmt.serve.options import ServerOptions, digest
from nmt.text.tokenizer import SentencePieceConfig, train_tokenizers
from nmt.translation.translator import Translator
from nmt.types import SentencePair

PAIRS = [
    SentencePair("He is tired.", "Il est fatigué."),
    SentencePair("She isn't here!", "Elle n’est pas ici !"),
    SentencePair("Where are the cats?", "Où sont les chats ?"),
    SentencePair("I see two dogs: one is black.", "Je vois deux chiens : l’un est noir."),
    SentencePair("The garden is beautiful today.", "Le jardin est beau aujourd’hui."),
]
TEXTS = [*(pair.src_text for pair in PAIRS), "The cats see the garden, and he is here.", "Is"]

Serve = Callable[..., contextlib.AbstractContextManager[TestClient]]


@pytest.fixture(scope="session")
def translator() -> Translator:
    tokenizers = train_tokenizers(SentencePieceConfig(vocab_size=40), PAIRS, "en", "fr", seed=1)
    torch.manual_seed(5)
    sizes = len(tokenizers.src.vocab), len(tokenizers.tgt.vocab)
    model = build_model(RNNConfig(embedding=11, hidden=13), *sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    search = SearchConfig(max_length=9, beam=4)
    return Translator(model.to(HERE), tokenizers, HERE, search)


class Slow(Translator):
    """A translator whose next calls wait for `go`."""

    def __init__(self, other: Translator) -> None:
        super().__init__(other.model, other.tokenizers, other.device, other.search)
        import threading

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
        app = make_app(named, options)
        with TestClient(app, raise_server_exceptions=False) as client:
            yield client

    return start


@pytest.fixture
def client(serve: Serve) -> Iterator[TestClient]:
    with serve() as test_client:
        yield test_client

"""The served models, each with its worker, and the checks that the routes share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from fastapi import HTTPException
from prometheus_client import CollectorRegistry, Gauge, Histogram, Summary

from nmt.corpora.languages import language_code
from nmt.documents.document import SentenceReader
from nmt.documents.translate import reader_of
from nmt.errors import ConfigError
from nmt.evaluation.confidence import Calibration, find_calibration
from nmt.serve.options import ServerOptions, digest
from nmt.serve.worker import Decoding, Worker
from nmt.translation.parallel import CheckCancelled
from nmt.translation.translator import Translator
from nmt.types import Translation


@dataclass(frozen=True)
class ServedModel:
    """A served run with its languages, limits, sentence reader, worker and optional calibration."""

    name: str
    source: str
    target: str
    beam: int
    max_length: int
    reader: SentenceReader
    worker: Worker
    steerable: bool
    calibration: Calibration | None = None


class Metrics:
    """Metrics that Prometheus reads at /metrics. They contain no text of a request."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        seconds = "seconds from a request's arrival to its answer"
        names = ["path", "status"]
        self.requests = Histogram("nmt_request_seconds", seconds, names, registry=registry)
        sentences = "sentences in a batch"
        self.batches = Summary("nmt_batch_sentences", sentences, ["model"], registry=registry)
        self.waiting = Gauge("nmt_waiting", "waiting sentences", ["model"], registry=registry)


class Service:
    """The models of a server by name, its options and its metrics.

    Starts one worker per model. Raises ConfigError if two models have the same name.
    """

    def __init__(
        self,
        translators: Sequence[tuple[str, Translator]],
        options: ServerOptions,
        say: Callable[[str], None],
    ) -> None:
        names = [name for name, _ in translators]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"`run`: two runs are named '{name}', allowed: one of each name")
        self.options, self.metrics = options, Metrics()
        self.models = {name: self._start(name, translator, say) for name, translator in translators}

    def _start(self, name: str, translator: Translator, say: Callable[[str], None]) -> ServedModel:
        def translate(
            texts: Sequence[str], decoding: Decoding, check: CheckCancelled
        ) -> Sequence[Translation]:
            checked = translator.cancelled_by(check)
            if decoding == Decoding(decoding.n_best):
                return checked.translate(texts, decoding.n_best)
            return checked.translate(
                texts,
                # Constraints need beam search.
                search={"n_best": decoding.n_best, "mbr": None, "sampling": None},
                prefixes=[decoding.prefix] * len(texts),
                attention=[dict(decoding.attention)] * len(texts),
            )

        worker = Worker(
            translate,
            translator.search.batch_size,
            self.options.waiting,
            on_batch=self.metrics.batches.labels(name).observe,
            compute=lambda: torch.ones(1, device=translator.device).item(),
        )
        self.metrics.waiting.labels(name).set_function(lambda: worker.n_waiting)
        search = translator.search
        calibration = find_calibration(translator, say)
        reader = reader_of(translator)
        limits = min(search.beam, search.max_n_best), search.max_length
        steerable = not translator.tokenizers.reverse_target
        languages = translator.languages
        return ServedModel(name, *languages, *limits, reader, worker, steerable, calibration)

    def check_key(self, key: object) -> None:
        """Raise HTTPException 403 if the server has keys and `key` is none of them.

        Digests are compared, so the time that this takes reveals nothing about a key.
        """
        keys = self.options.keys
        if keys and not (isinstance(key, str) and digest(key) in keys):
            raise HTTPException(403, "this server needs a valid API key, as api_key")

    def model_of(self, source: str, target: str) -> ServedModel:
        """Return the first model of a language pair. If none has these codes, read `en-US` as `en`.

        Raises HTTPException 400 if there is none.
        """
        for read in (str, language_code):
            for model in self.models.values():
                if (read(model.source), read(model.target)) == (read(source), read(target)):
                    return model
        pairs = sorted({f"{model.source} to {model.target}" for model in self.models.values()})
        got = f"{source[:20]} to {target[:20]}"
        raise HTTPException(400, f"{got} is not supported; allowed: {', '.join(pairs)}")

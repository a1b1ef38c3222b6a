"""Counters that Prometheus reads at /metrics."""

from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from nmt.serve.models import ServedModel


class Metrics:
    """Counters of one server, in a registry of their own. They hold no text of any request."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._requests = Counter("nmt_requests", "answers", ["path", "status"], registry=registry)
        self._seconds = Histogram(
            "nmt_request_seconds",
            "from a request's arrival to its answer",
            ["path"],
            registry=registry,
        )
        self._sentences = Counter(
            "nmt_sentences", "sentences decoded", ["model"], registry=registry
        )
        self._batches = Counter("nmt_batches", "batches decoded", ["model"], registry=registry)
        self._waiting = Gauge("nmt_waiting", "sentences that wait", ["model"], registry=registry)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer; `path` is that of a route, so that there are not more than of these."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def decoded(self, model: str, n_sentences: int) -> None:
        """Count a batch."""
        self._batches.labels(model).inc()
        self._sentences.labels(model).inc(n_sentences)

    def watch(self, models: Iterable[ServedModel]) -> None:
        """Report how many sentences wait for each model, whenever the metrics are read."""
        for model in models:
            self._waiting.labels(model.name).set_function(partial(_n_waiting, model))

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)


def _n_waiting(model: ServedModel) -> float:
    return float(model.worker.n_waiting)

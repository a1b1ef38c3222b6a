"""Metrics that Prometheus reads at /metrics."""

from prometheus_client import CollectorRegistry, Gauge, Histogram, Summary


class Metrics:
    """Metrics of one server, in their own registry. They contain no text of a request."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Histogram(
            "nmt_request_seconds",
            "seconds from a request's arrival to its answer",
            ["path", "status"],
            registry=self.registry,
        )
        self.batches = Summary(
            "nmt_batch_sentences", "sentences in a batch", ["model"], registry=self.registry
        )
        self.waiting = Gauge("nmt_waiting", "waiting sentences", ["model"], registry=self.registry)

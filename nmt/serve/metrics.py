"""Metrics that Prometheus reads at /metrics."""

from prometheus_client import CollectorRegistry, Gauge, Histogram, Summary


class Metrics:
    """Metrics of one server, in a registry of their own. They hold no text of any request."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Histogram(
            "nmt_request_seconds",
            "seconds from a request's arrival to its answer",
            ["path", "status"],
            registry=self.registry,
        )
        self.batches = Summary(
            "nmt_batch_sentences", "sentences of a batch", ["model"], registry=self.registry
        )
        self.waiting = Gauge(
            "nmt_waiting", "sentences that wait", ["model"], registry=self.registry
        )

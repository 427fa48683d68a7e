"""What Prometheus reads."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenkeel.service.service import Service
from evenkeel.service.store.counters import percent_right

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics(Collector):
    """Latencies as they happen; everything else is looked up when someone asks."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.latency = Histogram(
            "evenkeel_request_seconds",
            "Time to answer a request",
            ["route", "status"],
            buckets=BUCKETS,
            registry=self.registry,
        )

    def collect(self) -> Iterator[Metric]:
        service, supervisor = self._service, self._service.supervisor
        yield _gauge("version", "Batches learned by the model that answers", service.published.version)
        yield _gauge("classes", "Labels known", len(service.published.classifier.classes))
        yield _gauge("memory_samples", "Samples in memory", sum(service.published.stored.values()))
        yield _gauge("memory_bytes", "Bytes of memory", service.published.bytes)
        yield _gauge("learning", "1 while examples can be accepted and learned, else 0", float(service.problem is None))
        if supervisor is None:
            return
        report = supervisor.report
        yield _gauge("queue", "Examples accepted but not learned", supervisor.waiting)
        yield _gauge("queue_limit", "Examples that may wait", service.config.limits.queue)
        yield _gauge("learned_per_second", "Over the last ten seconds", supervisor.rate)
        yield _counter("learned", "Examples learned", report.learned)
        yield _counter("refused", "Examples whose update was not finite", report.refused)
        yield _counter("tested", "Examples predicted just before they were learned", report.tested)
        yield _counter("tested_right", "Of those, predicted right", report.right)
        for name, told, value in (
            ("accuracy_before_learning", "Share right, in percent, of the last 1,000", report.lately),
            (
                "accuracy_answered",
                "Share right, in percent, of the last 1,000 labelled answers",
                percent_right(supervisor.answered),
            ),
            ("recency_bias", "Percent of old classes' samples taken for a newest class", report.recency_bias),
        ):
            if value is not None:
                yield _gauge(name, told, value)


def _gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(f"evenkeel_{name}", told, value=value)


def _counter(name: str, told: str, value: float) -> Metric:
    return CounterMetricFamily(f"evenkeel_{name}", told, value=value)

"""The metrics of a service, for Prometheus."""

import platform
import time
from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from evenkeel.service.service import Service
from evenkeel.service.store.counters import percent_right
from evenkeel.service.store.queries import RECENT

BUILD = {"version": version("evenkeel"), "torch": version("torch"), "python": platform.python_version()}
COUNTED = {
    "accepted": "Examples accepted",
    "withdrawn": "Examples forgotten or dropped before they were learned",
}
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics(Collector):
    """The metrics of a service. Latencies are recorded as they occur; all else is read when Prometheus scrapes.

    `counts` are those of the journal, which must be read before.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self.counts: dict[str, int] = {}
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.latency = Histogram(
            "evenkeel_request_seconds",
            "Time to answer a request",
            ["route", "status"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)  # of the service: resident memory, CPU, files
        ProcessCollector("evenkeel_learner", pid=self._learner, registry=self.registry)
        self._by_route: dict[tuple[str, int], Histogram] = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Record how long a request took."""
        series = self._by_route.get((route, status))
        if series is None:
            series = self._by_route[route, status] = self.latency.labels(route, str(status))
        series.observe(seconds)

    def _learner(self) -> int:
        """Return the id of the learner's process; one that does not exist if it has none of its own."""
        return (self._service.supervisor and self._service.supervisor.process) or -1

    def collect(self) -> Iterator[Metric]:
        service, supervisor = self._service, self._service.supervisor
        yield _gauge("version", "Number of the last batch learned by the published model", service.published.version)
        yield _gauge("classes", "Known labels", len(service.published.classifier.classes))
        yield _gauge("memory_samples", "Samples in memory", sum(service.published.stored.values()))
        yield _gauge("memory_bytes", "Size of the memory in bytes", service.published.bytes)
        yield _gauge("learning", "1 while examples can be accepted and learned, else 0", float(service.problem is None))
        yield InfoMetricFamily("evenkeel_build", "Versions of the program", value=BUILD)
        for name, description in COUNTED.items():
            if name in self.counts:
                yield _counter(name, description, self.counts[name])
        if supervisor is None:
            return
        report = supervisor.report
        age = time.monotonic() - supervisor.saved_at
        yield _gauge("recovering", "1 while examples are replayed after a start, else 0", float(report.recovering))
        yield _gauge("checkpoint_version", "Number of the last batch in the newest checkpoint", report.saved)
        yield _gauge("checkpoint_age_seconds", "Seconds since the newest checkpoint, or the start", age)
        yield _gauge("queue", "Examples accepted but not learned yet", supervisor.waiting)
        yield _gauge("queue_limit", "Maximum number of waiting examples", service.config.most_waiting)
        yield _gauge("queue_age_seconds", "Seconds for which the oldest one has waited", supervisor.queue.seconds)
        yield _gauge(
            "set_aside", "Examples that could not be learned, until they are retried or dropped", report.refused
        )
        yield _gauge("learned_per_second", "Examples learned per second, over the last ten seconds", supervisor.rate)
        yield _counter("learned", "Examples learned", report.learned)
        yield _counter("tested", "Examples predicted just before they were learned", report.tested)
        yield _counter("tested_right", "Examples predicted correctly just before they were learned", report.right)
        for name, description, value in (
            (
                "accuracy_before_learning",
                f"Percentage of the last {RECENT:,} examples predicted correctly just before they were learned",
                report.lately,
            ),
            (
                "accuracy_answered",
                f"Percentage of the last {RECENT:,} labelled predictions that were correct",
                percent_right(supervisor.answered),
            ),
            (
                "recency_bias",
                "Over- (above 0) or under-prediction of classes seen recently, on samples of memory, -100 to 100",
                report.recency_bias,
            ),
        ):
            if value is not None:
                yield _gauge(name, description, value)


def _gauge(name: str, description: str, value: float) -> Metric:
    return GaugeMetricFamily(f"evenkeel_{name}", description, value=value)


def _counter(name: str, description: str, value: float) -> Metric:
    return CounterMetricFamily(f"evenkeel_{name}", description, value=value)

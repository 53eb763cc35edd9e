"""How a process shows its metrics: alone, or with all processes of its machine that share a folder.

With PROMETHEUS_MULTIPROC_DIR (which `make up` sets) each process writes its numbers to files there and whoever is
asked answers for all of them; what has ended keeps its counts and loses its gauges. Without it each process answers
for itself only. Web answers at /metrics; a worker or scheduler at TOOLSYS_METRICS_LISTEN.
"""

import hmac
import logging
import os
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    generate_latest,
    start_http_server,
)
from prometheus_client.multiprocess import MultiProcessCollector

from toolsys.egress import EgressCounts

log = logging.getLogger(__name__)
EGRESS = Counter("egress_exchanges_total", "HTTP exchanges with the outside by how they ended.", ["outcome"])


class MeteredEgress(EgressCounts):
    """Counts for this process's own readers and for metrics. Outcomes are a closed set: no host, no tenant."""

    def add(self, outcome: str) -> None:
        super().add(outcome)
        EGRESS.labels(outcome).inc()


def exposition() -> bytes:
    return generate_latest(_registry())


def _registry() -> CollectorRegistry:
    folder = settings.METRICS_DIR
    if not folder:
        return REGISTRY
    _forget_gauges_of_the_dead(Path(folder))
    shared = CollectorRegistry()
    MultiProcessCollector(shared, folder)  # type: ignore[no-untyped-call]
    return shared


def _forget_gauges_of_the_dead(folder: Path) -> None:
    for path in folder.glob("gauge_live*_*.db"):
        pid = path.stem.rpartition("_")[2]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
        except (PermissionError, ValueError):
            continue


class _Everybody(CollectorRegistry):
    """What the listener of a process shows: collected anew for each request."""

    def collect(self):  # type: ignore[no-untyped-def]
        yield from _registry().collect()


def listen() -> None:
    """Answer for this process (or its machine) at TOOLSYS_METRICS_LISTEN; the first process there answers for all."""
    address = settings.TOOLSYS.metrics_listen
    if not address:
        return
    host, _, port = address.rpartition(":")
    with suppress(OSError):
        start_http_server(int(port), host, _Everybody())
        return
    log.warning("metrics are not shown by this process: the address is taken")


def view(request: HttpRequest) -> HttpResponse:
    """Show the metrics to who knows the token; without one to everybody on a machine that serves only itself."""
    token = settings.TOOLSYS.metrics_token.get_secret_value()
    if token:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        is_known = hmac.compare_digest(given.encode(), token.encode())
    else:
        is_known = settings.TOOLSYS.plain_http
    if not is_known:
        raise Http404
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)

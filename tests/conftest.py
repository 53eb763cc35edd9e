"""Fixtures of the whole suite: the database is real, each test has three tenants of its own, one of them uninvolved.

Nothing is rolled back or truncated: tenants are new for each test, and row-level security keeps them apart. The
database role neither owns tables nor bypasses row-level security.
"""

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connections

from tests.factories import Tenancy, make_tenancy
from tests.workers import WorkerRuntime
from toolsys.ports import Runtime

# Passwords of tests protect nothing; the real hasher takes seconds by design.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Each client loads the middleware anew, and would read all static files each time.
settings.WHITENOISE_AUTOREFRESH = True


@pytest.fixture(scope="session")
def _database(django_db_blocker: object) -> Iterator[None]:
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        yield
        connections.close_all()


@pytest.fixture
def database(_database: None) -> Iterator[None]:
    """Allow the database; connections go back to the pool after the test."""
    yield
    connections.close_all()


@pytest.fixture
def acme(database: None) -> Tenancy:
    return make_tenancy("acme")


@pytest.fixture
def globex(database: None) -> Tenancy:
    """The second tenant, who must not see what the first one does."""
    return make_tenancy("globex")


@pytest.fixture
def initech(database: None) -> Tenancy:
    """The uninvolved tenant: it never acts, and nothing of it may ever appear."""
    return make_tenancy("initech")


@pytest.fixture(scope="session")
def web() -> Runtime:
    """The runtime of a web process: the pipeline hands off at step 8."""
    from config.wiring import compose_web

    return compose_web().runtime


@pytest.fixture(scope="session")
def _worker() -> Iterator[WorkerRuntime]:
    running = WorkerRuntime()
    yield running
    running.close()


@pytest.fixture
def worker(_worker: WorkerRuntime, database: None) -> Runtime:
    """The runtime of a worker, in this process: real loop, real lease keeper, no queue."""
    return _worker.runtime

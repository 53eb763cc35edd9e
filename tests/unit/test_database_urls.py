"""Database URLs as Django's settings."""

import pytest

from config.databases import database, parse_database_url
from tests.spec.requirements import gate


def test_a_url_with_host_port_and_options() -> None:
    assert parse_database_url("postgres://app:p%40ss%2F@db.example:6432/tool%20sys?sslmode=require") == {
        "NAME": "tool sys",
        "USER": "app",
        "PASSWORD": "p@ss/",
        "HOST": "db.example",
        "PORT": "6432",
        "OPTIONS": {"sslmode": "require"},
    }


def test_a_url_with_a_socket_folder() -> None:
    assert parse_database_url("postgresql://app@/toolsys?host=%2Frun%2Fmy%20pg") == {
        "NAME": "toolsys",
        "USER": "app",
        "PASSWORD": "",
        "HOST": "/run/my pg",
        "PORT": "",
        "OPTIONS": {},
    }


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://app:secret@db/toolsys", "must begin with postgres://"),
        ("", "must begin with postgres://"),
        ("postgres://db/toolsys", "must name a user and a database"),
        ("postgres://app:secret@db", "must name a user and a database"),
        ("postgres://app:secret@db:http/toolsys", "port"),
    ],
)
def test_a_wrong_url_is_refused_without_showing_it(url: str, why: str) -> None:
    with pytest.raises(ValueError, match="(?i)" + why) as caught:
        parse_database_url(url)
    assert "secret" not in str(caught.value)


@gate("wait.bounded")
def test_no_wait_for_the_database_is_without_an_end_and_the_url_goes_before() -> None:
    options = database("postgres://app@/toolsys?host=/run&connect_timeout=3&options=-c%20lock_timeout%3D1s")["OPTIONS"]
    assert (options["connect_timeout"], options["tcp_user_timeout"]) == ("3", "30000")
    assert options["options"].endswith("-c idle_in_transaction_session_timeout=60s -c lock_timeout=1s")
    assert "options" not in database("postgres://owner@/toolsys?host=/run", is_bounded=False)["OPTIONS"]


def test_a_pool_only_where_asked_for() -> None:
    url = "postgres://app@/toolsys?host=/run"
    assert "pool" not in database(url)["OPTIONS"]
    assert database(url, pool_maximum=4)["OPTIONS"]["pool"]["max_size"] == 4

"""Filters of the console's templates."""

from datetime import timedelta

from django.utils import timezone

from toolsys.templatetags import console


def test_a_time_of_less_than_a_minute_is_not_called_none() -> None:
    now = timezone.now()
    assert console.ago(now - timedelta(seconds=9)) == "less than a minute ago"
    assert console.ago(now - timedelta(minutes=20, seconds=5)) == "20\xa0minutes ago"
    assert console.ahead(now + timedelta(seconds=9)) == "in less than a minute"
    assert console.ahead(now + timedelta(hours=2, seconds=5)) == "in 2\xa0hours"

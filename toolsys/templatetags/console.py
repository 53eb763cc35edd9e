"""Filters of the console's templates: `{{ text|visible }}` for names and notes that came from elsewhere, with invisible
characters made visible, `{{ milliseconds|duration }}`, and times as people say them. Escaping stays the template's.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince, timeuntil

from toolsys import inert, timeline

register = template.Library()
register.filter("duration", timeline.duration)


@register.filter
def visible(value: object) -> str:
    return inert.visible(str(value))


@register.filter
def plain(value: object) -> str:
    """A value of an enumeration, as people write it."""
    return str(value).replace("_", " ")


@register.filter
def ago(moment: datetime) -> str:
    return f"{_length(timesince(moment))} ago"


@register.filter
def ahead(moment: datetime) -> str:
    return f"in {_length(timeuntil(moment))}"


def _length(text: str) -> str:
    """Zero minutes are none that anybody would say."""
    return "less than a minute" if text.startswith("0") else text


@register.filter
def labelled(cells: Sequence[SafeString], headers: Sequence[dict[str, Any]]) -> Iterator[SafeString]:
    """Give each cell of a list's row the name of its column: on a phone a row is a card, without a head over it."""
    for cell, header in zip(cells, headers, strict=True):
        kind = cell[: cell.index("<t") + 3]
        text = str(header["text"])
        # The tick of an action has a control, and no name, for a head.
        label = format_html(' data-label="{}"', text[:1].upper() + text[1:]) if "<" not in text else ""
        yield mark_safe(kind + label + cell[len(kind) :])  # noqa: S308 - Django's own cell, with an escaped attribute

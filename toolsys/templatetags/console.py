"""Filters of the console's templates: `{{ text|visible }}` for names and notes that came from elsewhere, with invisible
characters made visible, and `{{ milliseconds|duration }}`. Escaping stays the template engine's.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

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
def labelled(cells: Sequence[SafeString], headers: Sequence[dict[str, Any]]) -> Iterator[SafeString]:
    """Give each cell of a list's row the name of its column: on a phone a row is a card, without a head over it."""
    for cell, header in zip(cells, headers, strict=True):
        kind = cell[: cell.index("<t") + 3]
        text = str(header["text"])
        # The tick of an action has a control, and no name, for a head.
        label = format_html(' data-label="{}"', text[:1].upper() + text[1:]) if "<" not in text else ""
        yield mark_safe(kind + label + cell[len(kind) :])  # noqa: S308 - Django's own cell, with an escaped attribute

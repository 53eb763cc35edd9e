"""Filters of the console's templates: `{{ text|visible }}` for names and notes that came from elsewhere, with invisible
characters made visible, and `{{ milliseconds|duration }}`. Escaping stays the template engine's.
"""

from django import template

from toolsys import inert, timeline

register = template.Library()
register.filter("duration", timeline.duration)


@register.filter
def visible(value: object) -> str:
    return inert.visible(str(value))

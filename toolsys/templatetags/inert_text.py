"""`{{ text|visible }}`: names and notes that came from elsewhere, with invisible characters made visible.

Escaping stays the template engine's. Used by the console's templates only.
"""

from django import template

from toolsys import inert

register = template.Library()


@register.filter
def visible(value: object) -> str:
    return inert.visible(str(value))

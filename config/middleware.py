"""The middleware of pages. A call of the API passes each of them by: it has no session, no form and no page to guard.

Subclasses, not a list of names: Django's checks of the admin look for these classes. Named by `config.settings` only.
"""

from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csp import ContentSecurityPolicyMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django_prometheus.middleware import PrometheusAfterMiddleware, PrometheusBeforeMiddleware  # type: ignore[import-untyped]
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]

from toolsys.api.middleware import is_call


class _PagesOnly:
    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        if is_call(request):
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]


class BeforePages(_PagesOnly, PrometheusBeforeMiddleware): ...  # type: ignore[misc]


class StaticFiles(_PagesOnly, WhiteNoiseMiddleware): ...  # type: ignore[misc]


class ContentSecurityPolicy(_PagesOnly, ContentSecurityPolicyMiddleware): ...


class Sessions(_PagesOnly, SessionMiddleware): ...


class Forms(_PagesOnly, CsrfViewMiddleware):
    """Refuses posts without a token. Views of the API are exempt: those that take a cookie ask for it themselves."""


class People(_PagesOnly, AuthenticationMiddleware): ...


class Messages(_PagesOnly, MessageMiddleware): ...


class Frames(_PagesOnly, XFrameOptionsMiddleware): ...


class AfterPages(_PagesOnly, PrometheusAfterMiddleware): ...  # type: ignore[misc]

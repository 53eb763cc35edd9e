"""People at the API: the console's session, where no key is sent. Whatever writes needs the form's token as well.

The API's middleware knows no sessions, so that a runtime's calls pay for none; a view that is open to people says so
with `KeyOrPerson`. Source: DESIGN §6 "People use the same API with their console session".
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from django.conf import settings
from django.contrib import auth
from django.http import HttpRequest, HttpResponse
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request

from toolsys.api.authentication import ApiKeyAuthentication, Caller
from toolsys.api.base import ApiView
from toolsys.domain.states import Role
from toolsys.problems import Problem
from toolsys.tenancy import ConsoleTenantMiddleware, console_of

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Person:
    """Who sent the request: a person, in the organisation that they work in."""

    tenant_id: str
    user: Any
    roles: frozenset[str]
    is_authenticated: bool = True

    def require(self, *roles: Role) -> None:
        """Raises: Problem (auth.forbidden), unless the person has one of the roles."""
        if not self.roles & frozenset(roles):
            raise Problem("auth.forbidden")


class KeyOrPerson(BaseAuthentication):
    """A bearer key; without an Authorization header, the console's session."""

    def authenticate(self, request: Request) -> tuple[Caller | Person, None]:
        """Raises: NotAuthenticated, AuthenticationFailed, Problem (auth.csrf)."""
        if "HTTP_AUTHORIZATION" in request.META:
            return ApiKeyAuthentication().authenticate(request)
        person = _person_of(request._request)
        if person is None:
            raise NotAuthenticated
        if request.method not in SAFE:
            _check_token(request._request)
        return person, None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="toolsys"'


class SharedView(ApiView):
    """Open to keys and to people; what only people may do asks for the person."""

    authentication_classes = [KeyOrPerson]

    @property
    def person(self) -> Person:
        """Raises: Problem (auth.forbidden), for a key."""
        user: Any = self.request.user
        if not isinstance(user, Person):
            raise Problem("auth.forbidden")
        return user

    @property
    def tenant_id(self) -> str:
        return str(self.request.user.tenant_id)  # type: ignore[union-attr]


def _person_of(request: HttpRequest) -> Person | None:
    """Return None for who is not signed in, is deactivated, or has yet to choose an organisation."""
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not key:
        return None
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = auth.get_user(request)
    if not user.is_authenticated or not user.is_active:
        return None
    console = console_of(user.pk, request.session.get(ConsoleTenantMiddleware.SESSION_KEY))
    if console is None or console.tenant_id is None:
        return None
    return Person(console.tenant_id, user, console.roles)


def _check_token(request: HttpRequest) -> None:
    """A cookie is sent by whatever page has the person's browser; the token only by ours."""
    check: Any = CSRFCheck(lambda _: HttpResponse())
    check.process_request(request)
    if check.process_view(request, None, (), {}) is not None:
        raise Problem("auth.csrf")

"""The tables of MCP: configured servers, the history of what they offered, and what sessions may expect of them.

Rows only; rules are in `mcpcatalog.validators`, writes in `mcpcatalog.services`. Source: TS "Schema additions".
"""

from enum import StrEnum
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.functions import Now

from mcpcatalog import drafts
from mcpcatalog.remote import AuthScheme, CatalogMode, KeyPlace, Transport
from mcpcatalog.rules import rules
from mcpcatalog.validators import InvalidConfiguration, Problem, mechanical
from toolsys.domain.spec import IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.models.base import TenantOwned, tenant_key


def _choices(kind: type[StrEnum]) -> list[tuple[str, str]]:
    return [(member.value, member.value.replace("_", " ")) for member in kind]


class McpServer(TenantOwned):
    """One configured server of a tenant, and what its last discovery saw. Never a secret, never a command line.

    Configuration is written by `administration` and, for seeds, `services.register_server`; rows of transport stdio and
    what a server is classified as by the operator role only (a trigger sees to it). What is observed is written by
    workers. Never deleted: disabling one withdraws its tools.
    """

    server_id = models.TextField(help_text="The second segment of its tools' names.")
    transport = models.TextField(choices=_choices(Transport))
    endpoint = models.TextField(help_text="A URL; for stdio, the name of an entry of the deployment's stdio servers.")
    auth_scheme = models.TextField(choices=_choices(AuthScheme), default=AuthScheme.NONE)
    auth_name = models.TextField(null=True, blank=True, help_text="The header's name, or the variable's.")
    credential_ref = models.TextField(null=True, blank=True)
    token_endpoint = models.TextField(null=True, blank=True)
    token_scopes = models.JSONField(null=True, blank=True)
    # The defaults are the most restrictive that the type system permits: nobody classified is expensive.
    side_effect = models.TextField(choices=_choices(SideEffectClass), default=SideEffectClass.EXTERNAL_WRITE)
    risk = models.TextField(choices=_choices(RiskLevel), default=RiskLevel.HIGH)
    idempotency = models.TextField(choices=_choices(IdempotencyClass), default=IdempotencyClass.NON_IDEMPOTENT)
    required_scopes = models.JSONField(default=list, blank=True)
    timeout_seconds = models.IntegerField(default=30)
    maximum_output_bytes = models.BigIntegerField(default=65_536)
    mode = models.TextField(choices=_choices(CatalogMode), default=CatalogMode.DISCOVERED)
    fixed_tools = models.JSONField(
        default=list, blank=True, help_text="Of a fixed server: its tools as name, description and input_schema."
    )
    key_place = models.TextField(choices=_choices(KeyPlace), default=KeyPlace.NONE)
    key_name = models.TextField(blank=True, default="")
    is_stateless = models.BooleanField(default=False, help_text="Sessions may share one connection.")
    enabled = models.BooleanField(default=True)

    # When operators last said what it does; null: nobody has, or it has moved since.
    classified_at = models.DateTimeField(null=True, editable=False)

    # Observed by discovery; no part of the configuration.
    negotiated_revision = models.TextField(blank=True, default="", editable=False)
    catalog_hash = models.TextField(blank=True, default="", editable=False)
    discovered_fingerprint = models.TextField(blank=True, default="", editable=False)
    last_discovered_at = models.DateTimeField(null=True, editable=False)
    list_changed_at = models.DateTimeField(null=True, editable=False)
    last_failed_at = models.DateTimeField(null=True, editable=False)
    failed_fingerprint = models.TextField(blank=True, default="", editable=False)
    last_failure_code = models.TextField(blank=True, default="", editable=False)
    last_failure_detail = models.TextField(blank=True, default="", editable=False)
    consecutive_failures = models.IntegerField(default=0, editable=False)
    server_claims = models.JSONField(default=dict, editable=False)
    rejected_tools = models.JSONField(default=list, editable=False)

    class Meta:
        db_table = "mcp_servers"
        verbose_name = "MCP server"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "server_id"], name="mcp_server_id_is_unique"),
        ]

    def __str__(self) -> str:
        return self.server_id

    def clean(self) -> None:
        """Raises: ValidationError, with every rule that the columns break here."""
        found = rules().problems_of(self.tenant_id, self.columns())
        if found:
            raise ValidationError(by_field(found))

    def save(self, *args: Any, **options: Any) -> None:
        """No door writes a row past the mechanical rules. Raises: InvalidConfiguration."""
        config, found = drafts.parsed(self.tenant_id, self.columns())
        found = found or mechanical(config)  # type: ignore[arg-type]
        if found:
            raise InvalidConfiguration(found)
        super().save(*args, **options)

    def columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in drafts.COLUMNS}


def by_field(found: tuple[Problem, ...]) -> dict[str, list[ValidationError]]:
    """Return problems as Django's forms and models name them; the codes stay."""
    errors: dict[str, list[ValidationError]] = {}
    for each in found:
        errors.setdefault(each.field, []).append(ValidationError(each.message, code=each.code))
    return errors


class ToolOverride(TenantOwned):
    """What one tool of a server is believed to do, where that is not what its server is. Null: as the server.

    A row of operators (`is_operators`) may be milder than the server, and then counts only for the endpoint and the
    declaration that they looked at; a row of the tenant only tightens. Written by `classifying`.
    """

    server_id = models.TextField()
    remote_name = models.TextField()
    is_operators = models.BooleanField(default=False)
    side_effect = models.TextField(choices=_choices(SideEffectClass), null=True, blank=True)
    risk = models.TextField(choices=_choices(RiskLevel), null=True, blank=True)
    idempotency = models.TextField(choices=_choices(IdempotencyClass), null=True, blank=True)
    endpoint = models.TextField(blank=True, default="")
    declaration_hash = models.TextField(blank=True, default="")
    note = models.TextField(blank=True, default="")
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        db_table = "mcp_tool_overrides"
        verbose_name = "tool override"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "server_id", "remote_name", "is_operators"], name="mcp_override_is_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.server_id} {self.remote_name}"


class ServerCheck(TenantOwned):
    """One walk up the ladder of a server: asked for by a person, done by a worker. The newest twenty are kept.

    `credential_version` is the one that was to be tested; null: whichever counts, as calls do.
    """

    server_id = models.TextField()
    credential_version = models.IntegerField(null=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    rungs = models.JSONField(default=list)
    is_passed = models.BooleanField(default=False)

    class Meta:
        db_table = "mcp_checks"
        verbose_name = "server check"
        indexes = [models.Index(fields=["tenant", "server_id", "-id"], name="mcp_check_by_server")]

    def __str__(self) -> str:
        return f"{self.server_id} {self.pk}"


class CatalogTool(TenantOwned):
    """One tool of one generation of a server's catalog, as received. A history: which schema a call was validated
    against stays answerable. Written by discovery; only `withdrawn_at` ever changes (a grant sees to it). A generation
    that no session pinned goes when it is old (`mcpcatalog.retention`).
    """

    server_id = models.TextField()
    catalog_hash = models.TextField()
    remote_name = models.TextField()
    registry_name = models.TextField()
    description = models.TextField(blank=True)
    input_schema = models.JSONField()
    claims = models.JSONField(default=dict)
    # As received; jsonb does not give numbers back as they were written. Empty: of an earlier release.
    declaration_hash = models.TextField(blank=True, default="")
    is_application_only = models.BooleanField(default=False)
    discovered_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "mcp_tool_catalog"
        verbose_name = "catalog tool"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "server_id", "catalog_hash", "remote_name"], name="mcp_tool_is_unique_in_generation"
            ),
        ]
        indexes = [
            # A call looks up the generation that its session pinned.
            models.Index(fields=["tenant", "server_id", "catalog_hash", "registry_name"], name="mcp_tool_by_pin"),
        ]

    def __str__(self) -> str:
        return self.registry_name


class CatalogChange(TenantOwned):
    """One change of a server's catalog, for whoever reviews it: what was added, removed, reworded or tightened.

    Written by discovery; append-only until it is old (`mcpcatalog.retention`). It changes no session and no policy.
    """

    server_id = models.TextField()
    old_hash = models.TextField()
    new_hash = models.TextField()
    differences = models.JSONField(default=list)

    class Meta:
        db_table = "mcp_catalog_changes"
        verbose_name = "catalog change"
        indexes = [
            models.Index(fields=["tenant", "server_id", "-id"], name="mcp_change_by_server"),
            # What is old goes first.
            models.Index(fields=["created_at"], name="mcp_change_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.server_id} {self.new_hash[:12]}"


class CatalogPolicy(TenantOwned):
    """How a tenant wants changes of its servers' catalogs to be treated; one row, absent until it says something.

    Written by tenant admins (`reviews.ask`). It decides what new sessions are offered, and no verdict.
    """

    is_quarantining = models.BooleanField(default=False, help_text="Changed and new tools wait for a review.")
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        db_table = "mcp_catalog_policies"
        verbose_name = "catalog policy"
        constraints = [models.UniqueConstraint(fields=["tenant"], name="mcp_catalog_policy_is_single")]

    def __str__(self) -> str:
        return self.tenant_id


class ToolReview(TenantOwned):
    """Somebody looked at one declaration of one tool at one endpoint, and accepted it. Append-only.

    A server with one such row is a reviewed server: what of it has none waits, where the tenant asks for it.
    """

    server_id = models.TextField()
    # Of a URL, which may be longer than an index takes.
    endpoint_hash = models.TextField()
    remote_name = models.TextField()
    declaration_hash = models.TextField()
    accepted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        db_table = "mcp_tool_reviews"
        verbose_name = "tool review"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "server_id", "remote_name", "declaration_hash", "endpoint_hash"],
                name="mcp_tool_review_is_unique",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.server_id} {self.remote_name} {self.declaration_hash[:12]}"


class SessionServer(TenantOwned):
    """What one agent session may still expect of one server; there is a row only where something went wrong.

    Written by workers, when a login is refused. `unavailable_at` is for the rest of the session. Every change raises
    the tenant's authorization epoch, so that all workers look again.
    """

    session = tenant_key("toolsys.AgentSession")
    server_id = models.TextField()
    reauthenticated_at = models.DateTimeField(null=True)
    unavailable_at = models.DateTimeField(null=True)
    reason_code = models.TextField(blank=True, default="")

    class Meta:
        db_table = "mcp_session_servers"
        verbose_name = "server of a session"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "session", "server_id"], name="mcp_session_server_is_unique"),
        ]

    def __str__(self) -> str:
        return self.server_id


class ServerRoute(TenantOwned):
    """Which worker holds a session's connection to a server that keeps state in it.

    Written by workers through `mcpcatalog_take_route`; deleted when the session ends, or an hour after the worker's
    last sign of life. It decides where a call is done and never whether.
    """

    session = tenant_key("toolsys.AgentSession")
    server_id = models.TextField()
    worker = models.TextField()
    taken_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "mcp_routes"
        verbose_name = "route of a session"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "session", "server_id"], name="mcp_route_is_unique"),
        ]
        # A worker that stops gives back everything that it holds.
        indexes = [models.Index(fields=["worker"], name="mcp_route_by_worker")]

    def __str__(self) -> str:
        return self.server_id


class RouteWorker(models.Model):
    """One worker process that may hold routes, until `expires_at`. Belongs to no tenant; written by workers through
    functions only, and read by nobody else.
    """

    name = models.TextField(primary_key=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "mcp_workers"
        verbose_name = "worker"

    def __str__(self) -> str:
        return self.name

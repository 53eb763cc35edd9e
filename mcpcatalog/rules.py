"""What a server's configuration is judged by here: this deployment's programs and bounds, and the tenant's allowlist.

`settings.TOOLSYS_MCP_RULES` names the function that makes it (`config.wiring`); tests make their own. Doors that write
or show a configuration ask here, and here only.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.utils.module_loading import import_string

from mcpcatalog import drafts
from mcpcatalog.drafts import Columns
from mcpcatalog.remote import ServerConfig
from mcpcatalog.validators import InvalidConfiguration, Problem, problems
from toolsys import allowances
from toolsys.domain.schemas import USUAL, SchemaCaps
from toolsys.egress import EgressPolicy


@dataclass(frozen=True, slots=True)
class Rules:
    """`policy` gives the egress policy that allows these origins, under what the deployment opens and denies."""

    stdio_names: frozenset[str]
    output_ceiling_bytes: int
    policy: Callable[[Iterable[str]], EgressPolicy]
    schema_caps: Mapping[tuple[str, str], SchemaCaps] = field(default_factory=dict)

    def caps_of(self, tenant_id: str, server_id: str) -> SchemaCaps:
        """Return how deep and large the schemas of a tenant's server may be: operators can raise what is usual."""
        return self.schema_caps.get((tenant_id, server_id), USUAL)

    def problems_of(
        self, tenant_id: str, columns: Columns, *, is_operator: bool = True, before: ServerConfig | None = None,
        using: str = DEFAULT_DB_ALIAS,
    ) -> tuple[Problem, ...]:  # fmt: skip
        """Return all that is wrong with these columns; without `is_operator` also what is not the tenant's to say."""
        config, found = drafts.parsed(tenant_id, columns)
        if config is None:
            return found
        return self.judge(config, is_operator=is_operator, before=before, using=using)

    def judge(
        self, config: ServerConfig, *, is_operator: bool, before: ServerConfig | None = None,
        using: str = DEFAULT_DB_ALIAS,
    ) -> tuple[Problem, ...]:  # fmt: skip
        origins = allowances.origins(config.tenant_id, using)
        return self.judged_at(config, origins, is_operator=is_operator, before=before)

    def judged_at(
        self, config: ServerConfig, origins: Iterable[str], *, is_operator: bool, before: ServerConfig | None = None
    ) -> tuple[Problem, ...]:  # fmt: skip
        """Judge as if the tenant's servers may reach these origins."""
        capped = replace(config, schema_caps=self.caps_of(config.tenant_id, config.server_id))
        return problems(
            capped, policy=self.policy(origins), stdio_names=self.stdio_names,
            output_ceiling_bytes=self.output_ceiling_bytes, is_operator=is_operator, before=before,
        )  # fmt: skip

    def checked(
        self, tenant_id: str, columns: Columns, *, is_operator: bool, before: ServerConfig | None = None,
        using: str = DEFAULT_DB_ALIAS,
    ) -> ServerConfig:  # fmt: skip
        """Return the configuration that may be written. Raises: InvalidConfiguration."""
        found = self.problems_of(tenant_id, columns, is_operator=is_operator, before=before, using=using)
        config, _ = drafts.parsed(tenant_id, columns)
        if found or config is None:
            raise InvalidConfiguration(found)
        return config


@cache
def rules() -> Rules:
    built: Rules = import_string(settings.TOOLSYS_MCP_RULES)()
    return built

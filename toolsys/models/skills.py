"""Skills: text that changes how a task is done, by its metadata."""

from django.db import models

from toolsys.domain.skills import SkillSource
from toolsys.models.base import TenantOwned


class Skill(TenantOwned):
    """One version of one skill. A history: only `withdrawn_at` ever changes (a grant sees to it), and it goes by age.

    Written by `toolsys.services` only. Of an MCP prompt this is the metadata; its content stays with its server. The
    description of a skill that is not the platform's is text from outside. Holds no personal data of ours.
    """

    source = models.TextField(choices=[(source.value, source.value) for source in SkillSource])
    server_id = models.TextField(null=True)
    name = models.TextField()
    version = models.TextField()
    description = models.TextField(blank=True)
    remote_name = models.TextField(blank=True)
    required_tools = models.JSONField(default=list)
    arguments = models.JSONField(default=list)
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "skills"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name", "version"], name="skill_version_is_unique"),
            # Whose prompt it is decides when it is withdrawn.
            models.CheckConstraint(
                condition=models.Q(source="mcp", server_id__isnull=False)
                | models.Q(~models.Q(source="mcp"), server_id=None),
                name="skill_of_a_server_is_mcp",
            ),
        ]
        indexes = [
            # What is listed, page by page, and what a discovery compares with.
            models.Index(fields=["tenant", "id"], name="skill_is_live", condition=models.Q(withdrawn_at=None)),
            # What is old goes first.
            models.Index(fields=["withdrawn_at"], name="skill_by_age", condition=models.Q(withdrawn_at__isnull=False)),
            # How many versions a server made of late.
            models.Index(fields=["tenant", "server_id", "created_at"], name="skill_of_a_server"),
        ]

    def __str__(self) -> str:
        return self.name

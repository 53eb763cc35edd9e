"""What a person found out about a call whose outcome is unknown."""

from django.conf import settings
from django.db import models

from toolsys.models.base import TenantOwned, tenant_key


class Resolution(models.TextChoices):
    HAPPENED = "happened", "it happened"
    NOT_HAPPENED = "not_happened", "it did not happen"
    LEFT_OPEN = "left_open", "left open"


class WorkerProof(models.TextChoices):
    """Why the worker of the claim can send nothing any more: passed deadlines do not suffice, a process can thaw."""

    PROCESS_GONE = "process_gone", "its process is gone"
    HOST_FENCED = "host_fenced", "its host was fenced"


class UncertainResolution(TenantOwned):
    """One finding, with its evidence. Append-only; the call's own status stays `uncertain`, the latest row counts.

    `not_happened` needs a proof about the worker, and lifts the breaker for that name and arguments (DESIGN §4).
    """

    invocation = tenant_key("toolsys.Invocation")
    resolution = models.TextField(choices=Resolution.choices)
    evidence = models.TextField()
    worker_proof = models.TextField(blank=True, choices=WorkerProof.choices)
    resolved_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")

    class Meta:
        db_table = "uncertain_resolutions"
        constraints = [
            models.CheckConstraint(
                name="not_happened_is_proved",
                condition=~models.Q(resolution="not_happened") | ~models.Q(worker_proof=""),
            ),
        ]
        indexes = [models.Index(fields=["tenant", "invocation", "-id"], name="resolution_by_invocation")]

    def __str__(self) -> str:
        return f"{self.resolution} {self.invocation_id}"

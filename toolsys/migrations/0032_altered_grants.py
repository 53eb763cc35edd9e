"""Whoever alters what a grant says raises the epoch, so that processes read it anew and see it; its uses only rise."""

from django.db import migrations

from toolsys.rowsecurity import RaisesAuthzEpoch
from toolsys.sqlfunctions import InstallFunctions

COLUMNS = ["confirmations", "activated_at", "revoked_at"]
# Everything that `approvals.evidence.words_digest` binds, and what binds it.
WORDS = [
    "tenant_id", "id", "request_id", "agent_id", "principal_id", "tool_name", "tool_digest", "seats", "origin_trust",
    "conditions", "maximum_uses", "expires_at", "note", "proposed_by_id", "words_digest",
]  # fmt: skip
DROP = "DROP TRIGGER raises_authz_epoch ON standing_grants;"
BEFORE = (
    f"CREATE TRIGGER raises_authz_epoch AFTER INSERT OR DELETE OR UPDATE OF {', '.join(COLUMNS)} ON standing_grants "
    "FOR EACH ROW EXECUTE FUNCTION toolsys_raise_authz_epoch();"
)
ONLY_RISE = """
CREATE TRIGGER uses_only_rise BEFORE UPDATE OF uses ON standing_grants
    FOR EACH ROW WHEN (NEW.uses < OLD.uses) EXECUTE FUNCTION toolsys_refuse_fewer_uses();
"""


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0031_unread_mark")]

    operations = [
        InstallFunctions(["55_grants.sql"], is_first=False),
        migrations.RunSQL(DROP, BEFORE),
        RaisesAuthzEpoch("StandingGrant", [*COLUMNS, *WORDS], on_insert=True),
        migrations.RunSQL(ONLY_RISE, "DROP TRIGGER uses_only_rise ON standing_grants;"),
    ]

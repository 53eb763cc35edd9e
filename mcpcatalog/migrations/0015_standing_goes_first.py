"""A refused login raises the epoch as every other change does, and so goes before the next watermark (decision 17)."""

from django.db import migrations

TRIGGER = (
    "DROP TRIGGER raises_authz_epoch ON mcp_session_servers;"
    "CREATE TRIGGER raises_authz_epoch AFTER INSERT OR UPDATE OR DELETE ON mcp_session_servers "
    "FOR EACH ROW EXECUTE FUNCTION {function}();"
)


class Migration(migrations.Migration):
    dependencies = [("mcpcatalog", "0014_classified_at"), ("toolsys", "0027_announced_changes")]

    operations = [
        migrations.RunSQL(
            TRIGGER.format(function="toolsys_raise_authz_epoch"),
            TRIGGER.format(function="mcpcatalog_raise_epoch_of_session"),
        ),
        # Reversed, it is there again before the trigger is.
        migrations.RunSQL(
            "DROP FUNCTION mcpcatalog_raise_epoch_of_session();",
            "CREATE FUNCTION mcpcatalog_raise_epoch_of_session() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "UPDATE tenants SET authz_epoch = authz_epoch + 1 WHERE id = coalesce(NEW.tenant_id, OLD.tenant_id); "
            "RETURN NULL; END $$;",
        ),
    ]

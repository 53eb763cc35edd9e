"""An identity that a caller gives, and the key made of it, are plain text: nothing empty or invisible becomes a row."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0029_mcp_retention")]

    operations = [
        migrations.AddConstraint(
            "invocation",
            models.CheckConstraint(condition=models.Q(call_id__regex="^[!-~]{1,255}$"), name="call_id_is_plain"),
        ),
        migrations.AddConstraint(
            "invocation",
            models.CheckConstraint(
                condition=models.Q(idempotency_key__regex="^[0-9a-f]{64}$"), name="idempotency_key_is_a_hash"
            ),
        ),
    ]

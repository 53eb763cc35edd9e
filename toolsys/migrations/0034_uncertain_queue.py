"""The queue of uncertain calls has an index: they are few among all that a tenant ever made."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0033_skill_retention")]

    operations = [
        migrations.AddIndex(
            model_name="invocation",
            index=models.Index(
                condition=models.Q(("status", "uncertain")), fields=["tenant", "id"], name="invocation_is_uncertain"
            ),
        ),
    ]

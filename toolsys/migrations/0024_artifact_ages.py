"""Artifacts by the time of their adoption: what nothing adopted, and what has been kept long enough."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0023_credential_version")]

    operations = [
        migrations.AddIndex(
            model_name="artifact",
            index=models.Index(fields=["tenant", "adopted_at"], name="artifact_by_adoption"),
        ),
    ]

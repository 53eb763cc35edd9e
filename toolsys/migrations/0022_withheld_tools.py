"""What a session was not given when it was opened, and why."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0021_lease_sweeps")]

    operations = [
        migrations.AddField(
            model_name="agentsession",
            name="withheld_tools",
            field=models.JSONField(db_default=[], default=list),
        ),
    ]

"""Standing grants bind what they say under a key that the database does not have; older proposals are made anew."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0027_announced_changes")]

    operations = [
        migrations.AddField(
            model_name="standinggrant", name="words_digest", field=models.TextField(blank=True, db_default="")
        ),
    ]

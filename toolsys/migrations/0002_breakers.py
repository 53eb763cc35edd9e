"""What the breakers count with, and the mark of a write that could not be recorded."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0001_initial")]

    operations = [
        migrations.AddField("invocation", "identical_count", models.IntegerField(db_default=1)),
        migrations.AddField("invocation", "evidence_digest", models.TextField(null=True)),
        migrations.AddField("invocation", "unrecorded_at", models.DateTimeField(null=True)),
        migrations.AddField("run", "evidence_restarts", models.IntegerField(db_default=0)),
        migrations.AddIndex(
            "invocation",
            models.Index(fields=["tenant", "run", "normalized_arguments_hash"], name="invocation_is_identical"),
        ),
        migrations.AddIndex(
            "invocation",
            models.Index(
                fields=["tenant", "run"],
                name="invocation_is_alarming",
                condition=models.Q(identical_count__gte=4) | models.Q(status__in=["denied", "uncertain"]),
            ),
        ),
    ]

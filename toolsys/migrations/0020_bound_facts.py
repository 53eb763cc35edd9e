"""What a held call's digest was made of beside its arguments, so that a page can make it again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0019_mcp_face")]

    operations = [
        migrations.AddField(
            model_name="approvalrequest", name="binding", field=models.TextField(db_default="", null=True)
        ),
    ]

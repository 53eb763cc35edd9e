"""What an API key is called on a page."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("toolsys", "0014_skills"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="apikey",
            options={"verbose_name": "API key"},
        ),
    ]

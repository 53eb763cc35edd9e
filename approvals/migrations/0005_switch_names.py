"""What the switches are called where several are listed."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0004_outbox"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="killswitch",
            options={"verbose_name_plural": "kill switches"},
        ),
        migrations.AlterModelOptions(
            name="platformswitch",
            options={"verbose_name_plural": "platform switches"},
        ),
    ]

"""Install the sweeper's questions again: it waits by how long a row has been due, and names cancelled held calls."""

from django.db import migrations

from toolsys.sqlfunctions import FOLDER


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0001_initial")]

    # Going back leaves the functions in place: 0001 owns them and drops them.
    operations = [
        migrations.RunSQL("GRANT CREATE ON SCHEMA public TO toolsys_definer;", migrations.RunSQL.noop),
        migrations.RunSQL((FOLDER / "40_definers.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL("REVOKE CREATE ON SCHEMA public FROM toolsys_definer;", migrations.RunSQL.noop),
    ]

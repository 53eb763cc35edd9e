"""Install the commit points again: consuming an approval and claiming keep the row's database epoch."""

from django.db import migrations

from toolsys.sqlfunctions import FOLDER


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0001_initial")]

    # Going back leaves the functions in place: 0001 owns them and drops them.
    operations = [migrations.RunSQL((FOLDER / "30_commits.sql").read_text(), migrations.RunSQL.noop)]

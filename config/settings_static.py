"""Settings for tools that read the code without any server: mypy's Django plugin, `makemigrations --check`.

It supplies placeholders for what is unset and is otherwise `config.settings`. Nothing may be served with it.
"""

import os

for _name in ("DATABASE_URL", "DATABASE_OPERATOR_URL", "DATABASE_OWNER_URL"):
    os.environ.setdefault(_name, "postgres://nobody@/nowhere?host=/nonexistent")
os.environ.setdefault("REDIS_URL", "unix:///nonexistent")
os.environ.setdefault("SECRET_KEY", "placeholder for tools that read the code")
os.environ.setdefault("MASTER_ENCRYPTION_KEY", "A" * 43 + "=")

from config.settings import *  # noqa: E402, F403

# No pool that would try for ten seconds, with a line each half second, to reach what is not there.
for _database in DATABASES.values():  # noqa: F405
    _database["OPTIONS"].pop("pool", None)

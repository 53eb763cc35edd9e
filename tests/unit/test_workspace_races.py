"""A thread swaps folders and files for links while others read and write: nothing outside is ever reached."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.spec.requirements import gate
from toolsys import folders
from toolsys.domain.context import WorkspaceRefused
from toolsys.workspace import Workspaces

RUN = UUID("018f0000-0000-7000-8000-00000000000a")
SECONDS, LONGEST_SECONDS, ENOUGH = 1.0, 20.0, 20


def in_turn(*work: Callable[[], None]) -> list[int]:
    """Repeat each piece of work on a thread of its own for a while, and until each ran often enough.

    Return how often each ran, or raise what one raised.
    """
    began = time.monotonic()
    counts, faults = [0] * len(work), list[BaseException]()

    def goes_on() -> bool:
        passed = time.monotonic() - began
        return not faults and passed < LONGEST_SECONDS and (passed < SECONDS or min(counts) < ENOUGH)

    def repeat(number: int) -> None:
        try:
            while goes_on():
                work[number]()
                counts[number] += 1
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_SECONDS + 10)
    if faults:
        raise faults[0]
    return counts


def refused(work: Callable[[], object]) -> None:
    with suppress(WorkspaceRefused):
        work()


@gate("workspace.beneath")
@pytest.mark.parametrize("what", [pytest.param("folder", marks=pytest.mark.slow), "file"])
def test_a_link_put_in_the_place_of_a_folder_or_file_is_never_followed(tmp_path: Path, what: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"outside")
    place = Workspaces(tmp_path / "workspaces")("acme", RUN)
    place.write_bytes("d/file", b"inside")
    home = tmp_path / "workspaces" / "acme" / str(RUN)
    target, name = (outside, "d") if what == "folder" else (outside / "file", "d/file")
    aside = home / "aside"
    (home / "trap").symlink_to(target)
    seen: set[bytes] = set()
    listed: set[str] = set()

    def swap() -> None:
        with suppress(OSError):
            (home / name).rename(aside)
            (home / "trap").rename(home / name)
        with suppress(OSError):
            (home / name).rename(home / "trap")
            aside.rename(home / name)

    def read() -> None:
        refused(lambda: seen.add(place.read_bytes("d/file", offset=0, limit=100).data))

    def write() -> None:
        refused(lambda: place.write_bytes("d/file", b"inside"))

    def look() -> None:
        refused(lambda: listed.update(entry.path for entry in place.list_entries("d", depth=3, limit=50)[0]))

    counts = in_turn(swap, read, read, write, look)
    assert min(counts) >= ENOUGH, counts
    assert seen == {b"inside"}
    assert sorted(path.name for path in outside.iterdir()) == ["file"]
    assert (outside / "file").read_bytes() == b"outside"
    assert listed <= {"d/file"}


@gate("workspace.beneath")
def test_a_link_put_there_between_the_look_and_the_open_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"outside")
    place = Workspaces(tmp_path / "workspaces")("acme", RUN)
    place.write_bytes("f", b"inside")
    name = tmp_path / "workspaces" / "acme" / str(RUN) / "f"
    look = folders.require_plain

    def swap(folder: int, looked_at: str) -> os.stat_result:
        found = look(folder, looked_at)
        name.unlink()
        name.symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr(folders, "require_plain", swap)
    with pytest.raises(WorkspaceRefused, match="kind"):
        place.read_bytes("f", offset=0, limit=100)


@gate("workspace.whole")
@pytest.mark.parametrize("swapped", ["link", "hard link"])
def test_a_link_put_there_before_the_new_file_takes_its_name_is_replaced_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"outside")
    place = Workspaces(tmp_path / "workspaces")("acme", RUN)
    place.write_bytes("f", b"inside")
    name = tmp_path / "workspaces" / "acme" / str(RUN) / "f"
    rename = os.rename

    def swap(*arguments: Any, **more: Any) -> None:
        name.unlink()
        name.symlink_to(secret) if swapped == "link" else name.hardlink_to(secret)
        rename(*arguments, **more)

    monkeypatch.setattr(os, "rename", swap)
    place.write_bytes("f", b"new")
    assert (name.is_symlink(), name.read_bytes(), secret.read_bytes()) == (False, b"new", b"outside")


@gate("workspace.whole")
@pytest.mark.slow
def test_a_reader_sees_one_whole_file_or_another(tmp_path: Path) -> None:
    place = Workspaces(tmp_path / "workspaces")("acme", RUN)
    bodies = [letter * size for letter, size in ((b"a", 200_000), (b"b", 3), (b"c", 70_000))]
    place.write_bytes("f", bodies[0])
    seen: set[bytes] = set()

    def write(body: bytes) -> Callable[[], None]:
        return lambda: refused(lambda: place.write_bytes("f", body))

    def read() -> None:
        seen.add(place.read_bytes("f", offset=0, limit=1_000_000).data)

    in_turn(*map(write, bodies), read)
    assert seen <= set(bodies)


@gate("workspace.whole")
def test_writers_of_one_new_folder_do_not_stand_in_each_others_way(tmp_path: Path) -> None:
    for number in range(30):
        place = Workspaces(tmp_path / "workspaces")("acme", UUID(int=number))
        barrier, faults = threading.Barrier(4), list[Exception]()

        def write(name: str, place=place, barrier=barrier, faults=faults) -> None:  # type: ignore[no-untyped-def]
            barrier.wait(10)
            try:
                place.write_bytes(f"new/{name}", b"x")
            except Exception as fault:
                faults.append(fault)

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert faults == []
        assert len(place.list_entries("new", depth=1, limit=10)[0]) == 4

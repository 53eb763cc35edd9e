"""An interrupted matrix goes on where it was, and never takes another commit's or seed's results for its own."""

import subprocess
import time
from pathlib import Path

import pytest

from tests.crash import matrix, selection
from tests.crash.cell import Result
from tests.crash.matrix import Matrix, Memory, parse

AS_SOMEBODY = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.invalid")
CELLS = selection.first_round()[:3]


def finished(path: Path, commit: str = "abc", seed: int = 1, *, fresh: bool = False) -> Memory:
    return Memory(path, commit, seed, fresh=fresh)


def test_finished_cells_are_remembered_by_commit_and_seed(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    memory = finished(path)
    memory.keep(Result(CELLS[0].name), 1)
    memory.keep(Result(CELLS[1].name, faults=["wrong"]), 2)
    again = Matrix(CELLS, finished(path), time.monotonic() + 60)
    assert [line["cell"] for line in again.results()] == [CELLS[0].name, CELLS[1].name]
    assert again.left() == 1
    assert [line["faults"] for line in again.results()] == [[], ["wrong"]]
    assert Matrix(CELLS, finished(path, seed=2), time.monotonic()).left() == 3
    assert Matrix(CELLS, finished(path, commit="abd"), time.monotonic()).left() == 3


def test_fresh_forgets(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    finished(path).keep(Result(CELLS[0].name), 1)
    assert finished(path, fresh=True).results == {}
    assert not path.exists()


def test_a_change_of_what_is_tested_is_another_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    (tmp_path / "toolsys").mkdir()
    source, new = tmp_path / "toolsys" / "store.py", tmp_path / "toolsys" / "new.py"
    source.write_text("one = 1\n")
    seen = [matrix.commit_id()]
    assert seen[0].startswith("sources-")
    for command in (["init", "-q"], ["add", "."], [*AS_SOMEBODY, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    seen.append(matrix.commit_id())
    source.write_text("one = 2\n")
    seen.append(matrix.commit_id())
    new.write_text("two = 2\n")
    seen.append(matrix.commit_id())
    new.write_text("two = 3\n")
    seen.append(matrix.commit_id())
    assert len(set(seen)) == len(seen)
    assert "+" not in seen[1]
    assert all(each.startswith(f"{seen[1]}+") for each in seen[2:])


def test_only_known_selections_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["--selection", "pairwise", "--seed", "3"]).seed == 3
    with pytest.raises(SystemExit):
        parse(["--selection", "some"])
    assert "invalid choice" in capsys.readouterr().err

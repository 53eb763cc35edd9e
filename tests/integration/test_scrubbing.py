"""A tool of this build that gives away what it resolved: through the real registry, store, vault and artifacts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from django.conf import settings

from tests.factories import Tenancy
from tests.spec.requirements import gate
from tests.unit import specs
from toolsys import vault
from toolsys.builtin.demo import DemoEcho
from toolsys.domain.capture import OutputTooLarge
from toolsys.domain.context import SecretValue, ToolExecutionContext
from toolsys.domain.results import ArtifactPart, TextPart, ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject
from toolsys.envelope import Envelope
from toolsys.models import Artifact, Invocation
from toolsys.ports import NotAvailable, Preparable, Runtime
from toolsys.scrubbing import watched
from toolsys.tenancy import tenant_transaction

SECRET = "sentinel-4711-of-the-vault"

type Ending = Callable[[str, ToolExecutionContext], Awaitable[ToolResult]]


async def answers(secret: str, context: ToolExecutionContext) -> ToolResult:
    kept = await context.artifacts.write(f"log: {secret}\n".encode() * 3, "text/plain")
    return ToolResult(
        ok=True, content=(TextPart(text=f"logged in with {secret}"), ArtifactPart(artifact=kept)), artifacts=(kept,),
        structured={secret: [f"x{secret}", {"deep": (secret,)}]}, metrics={secret: 1},
    )  # fmt: skip


async def overflows(secret: str, context: ToolExecutionContext) -> ToolResult:
    return ToolResult(ok=True, content=(TextPart(text=f"{secret} " * 2_000),))


async def fails(secret: str, context: ToolExecutionContext) -> ToolResult:
    return ToolResult(ok=False, failure=ToolFailure(
        kind=ToolFailureKind.UPSTREAM_ERROR, reason_code=secret, detail=f"refused {secret}", external_text=secret,
    ))  # fmt: skip


async def is_absent(secret: str, context: ToolExecutionContext) -> ToolResult:
    raise NotAvailable("tool.server_unauthorized", f"refused {secret}")


async def runs_away(secret: str, context: ToolExecutionContext) -> ToolResult:
    raise OutputTooLarge(f"log: {secret}")


async def raises(secret: str, context: ToolExecutionContext) -> ToolResult:
    raise ValueError(secret)


ENDINGS = [answers, overflows, fails, is_absent, runs_away, raises]


@gate("secrets.builtin", "secrets.nowhere")
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_what_a_builtin_resolved_is_in_nothing_that_it_leaves(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, ending: Ending, caplog: pytest.LogCaptureFixture
) -> None:
    reference = vault.create(
        tenant_id=acme.id, name="crm", value=SECRET, sealer=Envelope(settings.MASTER_ENCRYPTION_KEYS)
    )
    seen: list[str] = []

    async def execute(self: DemoEcho, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        seen.append((await context.credentials.resolve(reference)).reveal())
        return await ending(seen[-1], context)

    monkeypatch.setattr(DemoEcho, "execute", execute)
    (proposed,) = acme.propose(("demo.echo", {"text": "x"}))
    (done,) = acme.work(worker, proposed)
    assert seen[:1] == [SECRET], "the tool did have it"
    with tenant_transaction(acme.id):
        row = str(list(Invocation.objects.filter(pk=done.invocation_id).values()))
        files = list(Artifact.objects.filter(invocation_id=done.invocation_id))
    stored = [
        worker.artifacts.read(tenant_id=acme.id, artifact_id=it.id, storage_key=it.storage_key, sha256=it.sha256)
        for it in files
    ]
    told = f"{acme.call(done)}{row}{stored}{caplog.text}"
    assert SECRET not in told
    assert ("[credential removed]" in told) == (ending is not raises)


class Vault:
    async def resolve(self, credential_ref: str) -> SecretValue:
        return SecretValue(SECRET)


@gate("secrets.builtin")
def test_what_was_resolved_while_preparing_is_taken_out_of_the_answer_too() -> None:
    class Eager:
        spec, binding = DemoEcho.spec, ""

        async def prepare(self, context: ToolExecutionContext) -> None:
            self.secret = (await context.credentials.resolve("store:crm")).reveal()

        async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
            return ToolResult(ok=True, content=(TextPart(text=self.secret),))

    async def called() -> ToolResult:
        tool, given = watched(Eager()), specs.context(credentials=Vault())
        assert isinstance(tool, Preparable)
        await tool.prepare(given)
        return await tool.execute({}, given)

    assert asyncio.run(called()).content == (TextPart(text="[credential removed]"),)
    assert not hasattr(watched(DemoEcho()), "prepare"), "what needs none costs no turn of the loop"

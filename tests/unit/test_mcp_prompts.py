"""What becomes of a server's prompts: skills that nobody edits, or nothing."""

from dataclasses import replace

import pytest

from mcpcatalog import prompts
from mcpcatalog.remote import CatalogMode, RemotePrompt, ServerConfig, Transport
from tests.spec.requirements import gate
from toolsys.domain.skills import SkillArgument, SkillDeclaration, SkillSource
from toolsys.domain.trust import TrustLevel

SERVER = ServerConfig("acme", "crm", Transport.HTTP, "https://mcp.example/mcp")


@gate("skills.of_mcp")
def test_the_label_is_a_fact_of_the_source() -> None:
    found = {source: (source.trust, source.is_cacheable, source.is_read_only) for source in SkillSource}
    assert found == {
        SkillSource.PLATFORM: (TrustLevel.TRUSTED_CONFIGURATION, True, True),
        SkillSource.AGENT: (TrustLevel.EXTERNAL_UNTRUSTED, False, False),
        SkillSource.MCP: (TrustLevel.EXTERNAL_UNTRUSTED, False, True),
    }


@gate("skills.of_mcp")
def test_a_prompt_becomes_bounded_metadata() -> None:
    prompt = RemotePrompt("Summarize-Deal", "d" * 2_000, (("deal", "e" * 900, True), ("tone", "", False)))
    (skill,), rejected = prompts.skills_of(SERVER, [prompt])
    assert rejected == ()
    assert skill == SkillDeclaration(
        "mcp.crm.summarize_deal", skill.version, "d" * 1_024, "Summarize-Deal", (),
        (SkillArgument("deal", "e" * 300, is_required=True), SkillArgument("tone")),
    )  # fmt: skip
    reworded = prompts.skills_of(SERVER, [replace(prompt, description="d" * 1_999 + "x")])[0]
    assert reworded[0].version != skill.version, "a change past what is shown is a change"
    assert prompts.skills_of(replace(SERVER, mode=CatalogMode.FIXED), [prompt]) == ((), ())


@gate("skills.of_mcp")
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (RemotePrompt(""), "a name of"),
        (RemotePrompt("n" * 257), "a name of"),
        (RemotePrompt("bad", "a\0b"), "a character"),
        (RemotePrompt("bad", "\ud800"), "a character"),
        (RemotePrompt("bad", "", (("", "", False),)), "an argument"),
        (RemotePrompt("bad", "", (("a", "", False), ("a", "", True))), "an argument"),
        (RemotePrompt("bad", "", (("a" * 65, "", False),)), "an argument"),
        (RemotePrompt("bad", "", tuple((f"a{n}", "", False) for n in range(33))), "more than 32"),
    ],
    ids=["nameless", "long", "nul", "surrogate", "argument_nameless", "argument_twice", "argument_long", "arguments"],
)
def test_a_bad_prompt_costs_itself(bad: RemotePrompt, why: str) -> None:
    skills, (rejected,) = prompts.skills_of(SERVER, [RemotePrompt("good"), bad])
    assert [skill.remote_name for skill in skills] == ["good"]
    assert (rejected.reason, rejected.detail.startswith(why)) == ("prompt", True)


@gate("skills.of_mcp")
def test_two_prompts_of_one_name_are_both_dropped() -> None:
    skills, rejected = prompts.skills_of(SERVER, [RemotePrompt("Do It"), RemotePrompt("do-it"), RemotePrompt("other")])
    assert ([skill.name for skill in skills], [bad.detail for bad in rejected]) == (
        ["mcp.crm.other"], ["a name twice", "a name twice"],
    )  # fmt: skip

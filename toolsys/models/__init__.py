"""The tables of toolsys, one idea a file."""

from toolsys.models.agents import Agent, AgentSession, Run, RunStep, ToolSet
from toolsys.models.credentials import Credential, CredentialVersion
from toolsys.models.decisions import ApprovalRequest, GrantUse, PolicyDecision, StandingGrant
from toolsys.models.destinations import EgressAllowance
from toolsys.models.invocations import Artifact, Invocation, InvocationPayload, ToolEvent
from toolsys.models.mcp_face import McpClientSession, McpProposal
from toolsys.models.people import ApiKey, Membership, Principal
from toolsys.models.resolutions import Resolution, UncertainResolution, WorkerProof
from toolsys.models.skills import Skill
from toolsys.models.tenant import PlatformState, Tenant

__all__ = [
    "Agent",
    "AgentSession",
    "ApiKey",
    "ApprovalRequest",
    "Artifact",
    "Credential",
    "CredentialVersion",
    "EgressAllowance",
    "GrantUse",
    "Invocation",
    "InvocationPayload",
    "McpClientSession",
    "McpProposal",
    "Membership",
    "PlatformState",
    "PolicyDecision",
    "Principal",
    "Resolution",
    "Run",
    "RunStep",
    "Skill",
    "StandingGrant",
    "Tenant",
    "ToolEvent",
    "ToolSet",
    "UncertainResolution",
    "WorkerProof",
]

"""What the OpenAPI document says of an operation. Bodies come from the pydantic models, answers from `answers.py`."""

from collections.abc import Callable
from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import BaseModel

from toolsys.api.answers import ANSWERS, PROBLEM
from toolsys.api.schemas import (
    AcceptanceRequest,
    AccessAnswer,
    AccessQuestion,
    ConfirmationRequest,
    DecisionRequest,
    GrantRequest,
    QuarantineRequest,
    RunRequest,
    SessionRequest,
    StepRequest,
)

FORMAT: Final = [
    OpenApiParameter("format", OpenApiTypes.STR, description="How tools are rendered", enum=["native", "mcp", "openai",
                     "anthropic"]),
]  # fmt: skip
PAGE: Final = [
    OpenApiParameter("limit", OpenApiTypes.INT, description="At most this many, up to 100"),
    OpenApiParameter("cursor", OpenApiTypes.STR, description="`next_cursor` of the page before"),
]
DRY_RUN: Final = [
    OpenApiParameter(
        "dry_run", OpenApiTypes.STR, enum=["true", "false"],
        description="`true`: nothing is written, and the answer is a DryRun: what would become of each call",
    )
]  # fmt: skip
PREFER: Final = [
    OpenApiParameter(
        "Prefer", OpenApiTypes.STR, OpenApiParameter.HEADER, description="`wait=N` seconds, or `respond-async`"
    )
]

RANGE: Final = [
    OpenApiParameter("Range", OpenApiTypes.STR, OpenApiParameter.HEADER, description="One range: `bytes=0-1023`, "
                     "`bytes=1024-` or `bytes=-512`; several, or another unit, are ignored"),
    OpenApiParameter("If-Range", OpenApiTypes.STR, OpenApiParameter.HEADER, description="The ETag for which `Range` is "
                     "meant; another one answers with the whole"),
    OpenApiParameter("If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="ETags already held"),
]  # fmt: skip


class BearerKey(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Tells the document how a key is sent."""

    target_class = "toolsys.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "tsk_<prefix>_<secret>"}


class KeyOrSession(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Tells the document what else than a key is taken."""

    target_class = "toolsys.api.people.KeyOrPerson"
    name = ["apiKey", "consoleSession"]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, str]]:
        return [
            {"type": "http", "scheme": "bearer", "bearerFormat": "tsk_<prefix>_<secret>"},
            {"type": "apiKey", "in": "cookie", "name": "sessionid"},
        ]


REQUESTS: Final[tuple[type[BaseModel], ...]] = (
    SessionRequest, RunRequest, StepRequest, DecisionRequest, GrantRequest, ConfirmationRequest, AccessQuestion,
    AccessAnswer, QuarantineRequest, AcceptanceRequest,
)  # fmt: skip
_REFERENCE: Final = "#/components/schemas/{model}"
_PROBLEMS: Final = (400, 401, 404, 409, 413, 415, 422, 503)


def operation(
    summary: str, *, answers: dict[int, str], request: type[BaseModel] | None = None,
    query: list[OpenApiParameter] | None = None, headers: list[OpenApiParameter] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """Describe one operation; every one may answer with a problem body."""
    responses: dict[Any, Any] = {code: OpenApiResponse(_named(name), name) for code, name in answers.items()}
    responses |= {
        (code, "application/problem+json"): OpenApiResponse(_named("Problem"), "Problem") for code in _PROBLEMS
    }
    body = {"application/json": _named(request.__name__)} if request is not None else None
    return extend_schema(
        summary=summary, request=body, responses=responses, parameters=[*(query or []), *(headers or [])]
    )


def download(summary: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Describe an operation that answers with bytes, whole or a range of them."""
    said = {
        200: "The whole content, as an attachment", 206: "The range that was asked for",
        304: "What is held is current", 416: "Problem",
    }  # fmt: skip
    responses: dict[Any, Any] = {
        (code, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY, said[code]) for code in (200, 206)
    }
    responses |= {304: OpenApiResponse(description=said[304])}
    responses |= {
        (code, "application/problem+json"): OpenApiResponse(_named("Problem"), "Problem")
        for code in (*_PROBLEMS, 416, 500)
    }
    return extend_schema(summary=summary, request=None, responses=responses, parameters=RANGE)


def _named(name: str) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=name)}


def components() -> dict[str, Any]:
    """Return every schema by its name: what is answered, and what the pydantic models take."""
    found: dict[str, Any] = {**ANSWERS, "Problem": PROBLEM}
    for model in REQUESTS:
        schema = model.model_json_schema(ref_template=_REFERENCE)
        found |= {**schema.pop("$defs", {}), model.__name__: schema}
    return found


class DocumentGenerator(SchemaGenerator):
    """Writes the document with its schemas as named components."""

    def get_schema(self, request: Any = None, public: bool = False) -> dict[str, Any]:
        document: dict[str, Any] = super().get_schema(request, public)  # type: ignore[no-untyped-call]
        document["components"]["schemas"] = dict(sorted(components().items()))
        return document

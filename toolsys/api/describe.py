"""What the OpenAPI document says of an operation. Bodies come from the pydantic models, answers from `answers.py`."""

from collections.abc import Callable
from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import BaseModel

from toolsys.api.answers import ANSWERS, PROBLEM

FORMAT: Final = [
    OpenApiParameter("format", OpenApiTypes.STR, description="How tools are rendered", enum=["native", "mcp", "openai",
                     "anthropic"]),
]  # fmt: skip
PAGE: Final = [
    OpenApiParameter("limit", OpenApiTypes.INT, description="At most this many, up to 100"),
    OpenApiParameter("cursor", OpenApiTypes.STR, description="`next_cursor` of the page before"),
]
PREFER: Final = [
    OpenApiParameter(
        "Prefer", OpenApiTypes.STR, OpenApiParameter.HEADER, description="`wait=N` seconds, or `respond-async`"
    )
]


class BearerKey(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Tells the document how a key is sent."""

    target_class = "toolsys.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "tsk_<prefix>_<secret>"}


_PROBLEMS: Final = (400, 401, 404, 409, 413, 415, 422, 503)


def operation(
    summary: str, *, answers: dict[int, str], request: type[BaseModel] | None = None,
    query: list[OpenApiParameter] | None = None, headers: list[OpenApiParameter] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """Describe one operation; every one may answer with a problem body."""
    responses: dict[Any, Any] = {code: OpenApiResponse(ANSWERS[name], name) for code, name in answers.items()}
    responses |= {(code, "application/problem+json"): OpenApiResponse(PROBLEM, "Problem") for code in _PROBLEMS}
    body = {"application/json": _schema(request)} if request is not None else None
    return extend_schema(
        summary=summary, request=body, responses=responses, parameters=[*(query or []), *(headers or [])]
    )


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the model's JSON Schema with its definitions in place: the document has no other home for them."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def inlined(node: Any) -> Any:
        if isinstance(node, dict):
            if (name := str(node.get("$ref", "")).removeprefix("#/$defs/")) in definitions:
                return inlined(definitions[name])
            return {key: inlined(value) for key, value in node.items()}
        return [inlined(value) for value in node] if isinstance(node, list) else node

    found: dict[str, Any] = inlined(schema)
    return found

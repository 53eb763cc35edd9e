"""What the docs server takes: one contract for the server and for whoever calls it as a fixed server."""

from typing import Annotated, Final

from pydantic import Field

from mcpcatalog.contracts import Arguments, typed

Path = Annotated[str, Field(max_length=512, description="A document or a folder of them; empty: all.")]


class SearchArguments(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=256, description="Words to look for.")]
    path: Path = ""
    limit: Annotated[int, Field(ge=1, le=20, description="At most this many sections.")] = 5


class AuditArguments(Arguments):
    path: Path = ""
    limit: Annotated[int, Field(ge=1, le=200, description="At most this many problems.")] = 100


SEARCH: Final = typed("docs.search", "Find the sections of the documents that hold these words.", SearchArguments)
AUDIT: Final = typed("docs.audit_links", "Find links in the documents that lead nowhere. Nothing is dialled.",
                     AuditArguments)  # fmt: skip
CONTRACTS: Final = (SEARCH, AUDIT)

"""Why people reject a call, as a code that an agent can act upon; each has a row in the table of reasons. Pure."""

from enum import StrEnum


class Rejection(StrEnum):
    WRONG_TARGET = "wrong_target"
    WRONG_ARGUMENTS = "wrong_arguments"
    NOT_NEEDED = "not_needed"
    NOT_NOW = "not_now"
    TOO_RISKY = "too_risky"
    ASK_FIRST = "ask_first"

    @property
    def reason_code(self) -> str:
        return f"policy.rejected.{self}"

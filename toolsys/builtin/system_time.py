"""`system.time`: the present moment, in UTC and in one named zone."""

from datetime import UTC
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from toolsys.builtin.base import builtin_spec, failed, succeeded
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject
from toolsys.ports import Clock


class SystemTime:
    spec = builtin_spec(
        "system.time",
        "Tell the current date and time in a time zone.",
        {"zone": {"type": "string", "maxLength": 64, "default": "UTC", "description": "An IANA zone name"}},
    )
    binding = ""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        try:
            zone = ZoneInfo(arguments["zone"])
        except (ZoneInfoNotFoundError, ValueError):
            return failed(ToolFailureKind.INVALID_ARGUMENTS, "no such zone")
        now = self._clock.now()
        return succeeded({
            "utc": now.astimezone(UTC).isoformat(timespec="seconds"),
            "local": now.astimezone(zone).isoformat(timespec="seconds"), "zone": arguments["zone"],
        })  # fmt: skip

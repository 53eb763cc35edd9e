"""Logs as one JSON object a line on standard error. No payloads: callers pass identifiers in `extra`, never arguments.

Named by the LOGGING setting only; nobody imports it.
"""

import json
import logging
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "request", "server_time", "taskName"}


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message, exception, and whatever plain values came in `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)

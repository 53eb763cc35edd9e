"""What a lost attempt may leave in storage, put there for the collector of orphans: a row with its bytes, and bytes
that no row names. Both are two days old. What the call has adopted lies beside them and must stay.
"""

import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.crash.lane import Lane

TWO_DAYS: Final = 2 * 86_400.0
ADOPTED: Final = "SELECT storage_key FROM artifacts WHERE tenant_id = %s AND adopted_at IS NOT NULL"
ROWS: Final = "SELECT storage_key FROM artifacts WHERE tenant_id = %s"
LEAVE: Final = """INSERT INTO artifacts SELECT (jsonb_populate_record(a, jsonb_build_object('id', %s::text,
    'storage_key', %s::text, 'adopted_at', NULL, 'claim_epoch', 0, 'created_at', now() - interval '2 days'))).*
    FROM artifacts a WHERE a.tenant_id = %s AND a.adopted_at IS NOT NULL"""


@dataclass(frozen=True, slots=True)
class Leftovers:
    lane: Lane
    tenant: str
    kept: str
    lost: tuple[str, ...]

    @classmethod
    def beside_the_artifact_of(cls, lane: Lane, tenant: str) -> "Leftovers":
        (adopted,) = lane.rows(ADOPTED, tenant)
        folder = adopted["storage_key"].rpartition("/")[0]
        with_row, without = uuid.uuid4(), uuid.uuid4()
        left = cls(lane, tenant, adopted["storage_key"], (f"{folder}/0-{with_row}", f"{folder}/0-{without}"))
        for key in left.lost:
            left.file(key).write_bytes(b"sealed")
            os.utime(left.file(key), (time.time() - TWO_DAYS,) * 2)
        lane.execute(LEAVE, str(with_row), left.lost[0], tenant)
        return left

    def file(self, key: str) -> Path:
        return self.lane.files / key

    def are_gone(self) -> bool:
        rows = {row["storage_key"] for row in self.lane.rows(ROWS, self.tenant)}
        return not rows & set(self.lost) and not any(self.file(key).exists() for key in self.lost)

    def faults(self) -> list[str]:
        """Say what is wrong with what had to stay, and whether a row has lost its bytes."""
        rows = {row["storage_key"] for row in self.lane.rows(ROWS, self.tenant)}
        bare = [key for key in rows if not self.file(key).exists()]
        return [f"a row without its bytes: {key}" for key in bare] + ([] if self.kept in rows else ["it took too much"])

"""The whole table over HTTP."""

from typing import Final

from tests.hostile import answering, calling, connecting
from tests.hostile.row import Row

ROWS: Final[tuple[Row, ...]] = (*connecting.rows(), *calling.rows(), *answering.rows())

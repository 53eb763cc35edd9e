"""Planted defects: each takes one rule out of a copy of the tree, and the tests that it names must turn red."""

from tests.sabotage.in_approvals import APPROVAL_DEFECTS
from tests.sabotage.in_console import CONSOLE_DEFECTS
from tests.sabotage.in_face import FACE_DEFECTS
from tests.sabotage.in_mcp import MCP_DEFECTS
from tests.sabotage.in_python import PIPELINE_DEFECTS
from tests.sabotage.in_sql import SQL_DEFECTS

DEFECTS = (*PIPELINE_DEFECTS, *SQL_DEFECTS, *APPROVAL_DEFECTS, *MCP_DEFECTS, *FACE_DEFECTS, *CONSOLE_DEFECTS)

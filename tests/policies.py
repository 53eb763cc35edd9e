"""Policy for tests that are not about it: the real gate over a tenant without rules."""

from typing import Final

from approvals.gate import RuleGate
from approvals.ruleset import Ruleset


def no_rules(tenant_id: str, authz_epoch: int) -> Ruleset:
    return Ruleset()


MATRIX_ALONE: Final = RuleGate(no_rules)

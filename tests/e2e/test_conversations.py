"""The pages of MCP clients' conversations, empty and full, in every window."""

import pytest
from django.db import connections

from tests.e2e.chromium import Look
from tests.e2e.test_servers import WINDOWS
from tests.e2e.visitor import Arrive, Visitor, member
from tests.factories import Tenancy
from tests.integration.api.mcp_peer import NEW, OLD
from tests.integration.api.test_mcp_face import peer
from tests.spec.requirements import gate
from toolsys.domain.states import Role

pytestmark = pytest.mark.slow

PAGE = "/admin/toolsys/mcpclientsession/"
LONG = "assistant-of-somebody-with-a-very-long-name@a-department.of-an-organisation.example"


def sound(visitor: Visitor, name: str) -> None:
    assert visitor.overflow() == [], name
    assert visitor.axe() == [], name
    visitor.shot(f"conversations {name}")


@gate("console.windows")
@pytest.mark.parametrize("look", WINDOWS)
def test_conversations_are_read_in_every_window(acme: Tenancy, visit: Arrive, look: Look) -> None:
    developer = visit(member((acme, Role.DEVELOPER)), look, PAGE)
    assert "No conversation yet" in developer.text()
    sound(developer, "none")
    hand, ended = peer(acme, OLD), peer(acme, OLD, **{"toolsys-principal": LONG})
    hand.call("demo.echo", {"text": "hello"})
    assert ended.post(None, "DELETE").status == 204
    peer(acme, NEW, **{"toolsys-session": "a name"}).ask("tools/list")
    connections.close_all()
    developer.open(PAGE)
    assert "closed" in developer.text()
    sound(developer, "list")
    for number in range(3):
        developer.open(PAGE)
        with developer.page.expect_navigation():
            developer.page.locator("#result_list th a").nth(number).click()
        assert "object (" not in developer.text()
        assert developer.page.get_by_role("link", name="Close", exact=True).count() == 0
        sound(developer, f"one {number}")
    assert "a handshake" in developer.text()

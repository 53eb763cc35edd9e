"""One call through the whole pipeline, over the real store, in this process."""

from tests.factories import Tenancy
from toolsys.domain.calls import Progress
from toolsys.domain.states import InvocationStatus
from toolsys.ports import Runtime


def test_a_read_is_handed_off_executed_and_recorded(acme: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "hello"}))
    assert proposed.state is Progress.HANDED_OFF
    acme.work(worker, proposed)
    call = acme.call(proposed)
    assert call.status is InvocationStatus.SUCCEEDED
    assert call.payload["content"] == [{"type": "text", "text": "hello"}]

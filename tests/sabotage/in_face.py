"""Defects of the MCP face: numbering, collecting, whose session it is, and what stands outside of an envelope."""

from typing import Final

from tests.sabotage.defect import Defect, Edit, defect

NUMBERS: Final = "toolsys/sql/75_mcp_face.sql"
CONVERSATIONS: Final = "toolsys/conversations.py"
FACE: Final = "tests/integration/api/test_mcp_face.py::"
MESSAGES: Final = "tests/integration/api/test_mcp_messages.py::"

FACE_DEFECTS: Final[tuple[Defect, ...]] = (
    defect(
        "face: same call never attached", "the same call while uncollected is the same step", NUMBERS,
        "AND fingerprint = p_fingerprint AND collected_at IS NULL", "AND false",
        FACE + "test_two_of_the_same_call_at_once_are_one",
        FACE + "test_a_held_call_is_collected_by_the_same_call_later",
        FACE + "test_who_dies_between_number_and_step_is_followed_by_the_same_call",
    ),
    defect(
        "face: collected call attached", "a call after its outcome was collected is a new one", NUMBERS,
        "AND fingerprint = p_fingerprint AND collected_at IS NULL", "AND fingerprint = p_fingerprint",
        FACE + "test_a_call_is_one_step_of_one_call_and_its_outcome_is_collected_once",
    ),
    defect(
        "face: arguments ignored", "only the same name and arguments are the same call", "toolsys/api/mcp_calls.py",
        "canonical.canonical_bytes([name, message.raw_hash or arguments])", "canonical.canonical_bytes([name])",
        FACE + "test_other_arguments_another_order_of_keys_and_another_conversation",
    ),
    Defect(
        "face: numbering unlocked", "one lock on the conversation makes two of a call one",
        (
            Edit(NUMBERS, "id = p_session FOR NO KEY UPDATE;", "id = p_session;"),
            # Long enough for all of them to have looked, on a busy machine too.
            Edit(NUMBERS, "    IF c.id IS NULL THEN\n", "    IF c.id IS NULL THEN\n        PERFORM pg_sleep(3);\n"),
        ),
        (FACE + "test_two_of_the_same_call_at_once_are_one",),
    ),
    defect(
        "face: collected with the first byte", "who hangs up has collected nothing", "toolsys/api/mcp_messages.py",
        "        yield data[:-1]\n        collect(reply.collects)\n",
        "        collect(reply.collects)\n        yield data[:-1]\n",
        FACE + "test_an_answer_that_nobody_reads_to_its_end_is_not_collected",
    ),
    defect(
        "face: session of any key", "a session id opens nothing for another key", CONVERSATIONS,
        'select_related("run").filter(api_key_id=party.api_key_id, closed_at=None)\n        found = rows.filter(pk=',
        'select_related("run").filter(closed_at=None)\n        found = rows.filter(pk=',
        FACE + "test_anothers_session_is_not_found_and_a_key_opens_only_its_own",
    ),
    defect(
        "face: task of any key", "a task belongs to the key that proposed it", CONVERSATIONS,
        "rows = rows.filter(client_session__api_key_id=party.api_key_id)", "rows = rows.all()",
        FACE + "test_a_task_is_cancelled_by_its_id_and_belongs_to_its_key",
    ),
    defect(
        "face: any request cancels", "only the request that asked last may cancel", CONVERSATIONS,
        "client_session_id=conversation.id, request_id=request_id, collected_at=None",
        "client_session_id=conversation.id, collected_at=None",
        FACE + "test_a_cancelled_request_ends_its_call_and_only_the_one_that_asked_last_may",
    ),
    defect(
        "face: refused place kept", "a proposal that wrote nothing gives its place back", "toolsys/api/mcp_calls.py",
        "        conversations.forget(conversation.tenant_id, numbered.id, house.runtime.probe)\n        raise",
        "        raise",
        FACE + "test_a_run_that_a_breaker_failed_takes_nothing_until_its_client_was_silent",
    ),
    defect(
        "face: failed run replaced", "a breaker holds until the client was silent", CONVERSATIONS,
        "run.status == RunStatus.COMPLETED", "run.status != RunStatus.RUNNING",
        FACE + "test_a_run_that_a_breaker_failed_takes_nothing_until_its_client_was_silent",
    ),
    defect(
        "face: structured from outside", "what is from outside stands in its envelope only",
        "toolsys/api/mcp_render.py",
        " and view.output_trust != TrustLevel.EXTERNAL_UNTRUSTED:", ":",
        "tests/integration/mcp/test_hostile_text.py::"
        "test_words_of_a_server_stay_enveloped_on_their_way_to_an_mcp_client",
    ),
    defect(
        "face: any origin", "a script of a foreign page is not answered", "toolsys/api/mcp_view.py",
        "        mcp_revisions.check_origin(self.request)\n", "",
        MESSAGES + "test_the_way_a_message_comes_is_judged_before_it_is_read",
    ),
    defect(
        "face: headers not compared", "headers that a middlebox routes by say what the message says",
        "toolsys/api/mcp_revisions.py",
        '    _same("Mcp-Method", headers.get("HTTP_MCP_METHOD"), message.method)\n', "",
        MESSAGES + "test_an_envelope_that_disagrees_with_itself_is_refused",
    ),
)  # fmt: skip

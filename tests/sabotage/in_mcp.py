"""Defects of the MCP adapter: what a server says is believed, or what it does has no bound."""

from typing import Final

from tests.sabotage.defect import Defect, Edit, defect

SDK: Final = "mcpcatalog/sdk/"
MESSAGES, ERRORS, CONNECTION = SDK + "messages.py", SDK + "errors.py", SDK + "connection.py"
READ: Final = "tests/unit/test_mcp_messages.py::"
FAULTS: Final = "tests/integration/mcp/test_reported_faults.py::"
HOSTILE: Final = "tests/hostile/test_table.py::test_each_misbehaviour_has_its_outcome"
CALLS: Final = "tests/integration/mcp/test_reported_calls.py::"
GATES: Final = "tests/integration/mcp/test_gates.py::"
TABLE: Final = "tests/hostile/test_table.py::"
LADDER: Final = "tests/integration/mcp/test_ladder.py::"
STDIO: Final = "tests/integration/mcp/test_stdio.py::"
DEPARTURE: Final = "tests/integration/mcp/test_stdio_departure.py::"
SKILLS: Final = "tests/integration/mcp/test_skill_load.py::"
RECONNECTION: Final = "tests/integration/mcp/test_reconnection.py::"
SLOTS: Final = "tests/integration/mcp/test_slots.py::"
PROGRESS: Final = "tests/integration/mcp/test_check_progress.py::"
LOAD, PROMPT = "toolsys/control/skill_load.py", "mcpcatalog/prompt_skill.py"

MCP_DEFECTS: Final[tuple[Defect, ...]] = (
    defect(
        "answer of another call", "an answer is a call's own only by its identifier", MESSAGES,
        'if identifier is not None and is_answer and str(found.get("id")) != str(identifier):', "if False:",
        READ + "test_an_answer_is_ours_by_its_identifier",
        READ + "test_b31_any_cutting_of_a_stream_gives_the_same_messages", HOSTILE,
    ),
    defect(
        "answer before the request", "what was read ahead is no answer to the next request", "toolsys/dialling.py",
        'if info == "is_readable" and self._has_surplus():', "if False:", HOSTILE,
    ),
    defect(
        "lone surrogate loses the answer", "no character loses an answer", MESSAGES,
        "        found = _read_by_hand(data)\n", '        raise Unreadable("unreadable") from None\n',
        READ + "test_a_lone_surrogate_is_replaced_and_nothing_else_is_changed", HOSTILE,
    ),
    defect(
        "flood without bound", "more messages than anybody asked for end the call", SDK + "wire.py",
        "MAXIMUM_STRAYS: Final = 1_000\n", "MAXIMUM_STRAYS: Final = 1_000_000\n",
        FAULTS + "test_b29_strays_are_ignored_up_to_a_thousand",
    ),
    defect(
        "bytes of a flood without bound", "a megabyte of what nobody asked for ends a call", SDK + "wire.py",
        "MAXIMUM_STRAY_BYTES: Final = 1_000_000\n", "MAXIMUM_STRAY_BYTES: Final = 1_000_000_000\n",
        FAULTS + "test_b29_a_megabyte_of_strays_ends_the_call_however_few_they_are",
    ),
    defect(
        "handshake keeps its socket", "a TLS handshake that is given up leaves no descriptor", "toolsys/dialling.py",
        "            await self._inner.aclose()\n            raise\n", "            raise\n",
        "tests/egress/test_client.py::test_a_tls_handshake_that_is_given_up_keeps_no_socket",
    ),
    defect(
        "asides hold up calls", "whoever takes no cancellation of ours holds up no later call", SDK + "http.py",
        "ASIDE_SECONDS: Final = 2.0\n", "ASIDE_SECONDS: Final = 600.0\n",
        TABLE + "test_who_takes_no_cancellation_holds_up_no_later_call",
    ),
    defect(
        "connection after the watermark", "who cannot be reached was sent nothing, whatever the class",
        "mcpcatalog/tool.py", "            await self._ready(context)\n        except _REFUSED",
        "            pass\n        except _REFUSED",
        GATES + "test_a_process_that_no_longer_starts_is_unavailable_for_every_class",
        CALLS + "test_b45_where_every_connection_is_in_use_a_call_waits_and_then_was_never_sent",
    ),
    defect(
        "token after the watermark", "a token is exchanged before anything was sent", "mcpcatalog/tool.py",
        "        await connection.log_in()\n", "",
        CALLS + "test_b55_a_token_is_exchanged_before_the_watermark",
    ),
    defect(
        "list without an end in time", "a list whose every page is in time has a bound as a whole",
        SDK + "slots.py", "asyncio.timeout(LISTING_SECONDS)", "asyncio.timeout(600.0)",
        CALLS + "test_b27_a_list_that_comes_slowly_is_given_up_and_the_catalog_stays",
        SLOTS + "test_a_listing_that_stalls_gives_its_slot_back_at_its_deadline",
    ),
    defect(
        "our name on the wire", "a server is called by its own name of a tool", "mcpcatalog/tool.py",
        "            self.remote_name, sent,", "            self.spec.name, sent,",
        CALLS + "test_b13_the_name_on_the_wire_is_the_servers_own",
    ),
    defect(
        "child's secret said back", "what a child was given is taken out of what it says", SDK + "connection.py",
        "return (*self._login.secrets, *self._child.secrets)", "return self._login.secrets",
        "tests/integration/mcp/test_sentinels.py::test_a_child_that_says_its_secret_back_leaves_it_nowhere",
    ),
    defect(
        "codes of a server believed", "what a server says of time is not believed", ERRORS,
        "if error.code == REQUEST_TIMEOUT and not record.has_answer:", "if error.code == REQUEST_TIMEOUT:", HOSTILE,
    ),
    defect(
        "404 is a lost session", "without a session a 404 means that there is no such method", ERRORS,
        "    if record.has_session:\n", "    if True:\n",
        FAULTS + "test_b23_a_404_without_a_session_is_a_method_that_is_not_there", HOSTILE,
    ),
    defect(
        "503 asks for no patience", "Retry-After of a 503 is kept", ERRORS,
        'remote.ServerUnreachable(f"status {record.status}", retry_after_seconds=_wait(record))',
        'remote.ServerUnreachable(f"status {record.status}")', HOSTILE,
    ),
    defect(
        "listing felt by somebody", "what goes wrong while listing was felt by nobody", CONNECTION,
        '            error.effect = "not_applied"\n', '            error.effect = "unknown"\n', HOSTILE,
    ),
    defect(
        "empty cursor is the end", "an empty cursor is followed once", SDK + "listing.py",
        "or (not cursor and cursor in seen):", "or not cursor:",
        FAULTS + "test_b27_an_empty_cursor_is_followed_once",
    ),
    defect(
        "ladder without end", "one login anew for a session and a server", "mcpcatalog/services.py",
        "filter(pk=row.pk, reauthenticated_at=None, unavailable_at=None)", "filter(pk=row.pk)",
        LADDER + "test_one_login_anew_one_more_try_then_never_again",
        LADDER + "test_what_one_worker_spent_another_does_not_have",
    ),
    defect(
        "refused write sent again", "a 401 after the watermark proves nothing", "mcpcatalog/results.py",
        "if not has_renewed or recovery.recover(declared, effect_sent=was_sent) is RecoveryAction.UNCERTAIN:",
        "if not has_renewed:",
        "tests/unit/test_mcp_results.py::test_a_new_login_permits_another_try_only_where_one_could_not_double",
    ),
    defect(
        "error is proof", "only effect_status not_applied proves that nothing was applied", "mcpcatalog/results.py",
        'if result.effect != "not_applied" and not may_be_repeated(classification):', "if False:",
        "tests/unit/test_mcp_results.py::test_an_error_without_proof_is_an_unknown_outcome",
    ),
    defect(
        "environment inherited", "a child gets nothing of the worker's environment", SDK + "stdio.py",
        'return {"PATH": SEARCH_PATH,', 'return {**os.environ, "PATH": SEARCH_PATH,',
        STDIO + "test_the_environment_is_constructed_and_the_credential_is_its_one_variable",
    ),
    defect(
        "child outlives its worker", "a child dies with its worker", SDK + "launch.py",
        "_prctl(PR_SET_PDEATHSIG, END_NOW)", "pass",
        STDIO + "test_a_killed_worker_leaves_nothing_of_its_servers",
    ),
    defect(
        "secret said back", "a connection's own secrets are taken out of what comes back", CONNECTION,
        "scrubbed(task.result(), self._secrets)", "task.result()",
        "tests/integration/mcp/test_secrets.py::test_no_secret_of_an_http_server_is_left_anywhere",
        "tests/integration/mcp/test_secrets.py::test_a_child_that_echoes_its_environment_gives_no_secret_away",
    ),
    defect(
        "withdrawn tool is called", "a reconnection calls nothing that is no longer the pin", "mcpcatalog/tool.py",
        "if declared.get(self.remote_name) != self.declaration_hash:", "if False:",
        "tests/integration/mcp/test_reconnection.py"
        "::test_a_reconnection_calls_nothing_that_is_no_longer_what_was_pinned",
    ),
    defect(
        "one of two names kept", "names that normalize to one are both dropped", "mcpcatalog/mapping.py",
        "sorted((tool for tool in usable if tool.name not in clashing), key=", "sorted(usable, key=",
        "tests/unit/test_mcp_mapping.py::test_names_that_normalize_to_one_are_both_dropped",
    ),
    defect(
        "header names Authorization", "a header scheme may not name Authorization", "mcpcatalog/validators.py",
        'elif server.auth_scheme is AuthScheme.HEADER and name.lower() == "authorization":', "elif False:",
        "tests/unit/test_mcp_validators.py::test_each_rule_names_its_field",
    ),
    defect(
        "lease not asked at the pipe", "a process frozen between the SDK and the pipe does not send late",
        SDK + "stdio.py", "    if not may_leave():", "    if False:",
        DEPARTURE + "test_frozen_between_the_sdk_and_the_pipe_past_its_lease_a_process_never_sends",
        DEPARTURE + "test_a_call_that_waited_for_the_pipe_is_asked_when_it_is_written",
    ),
    defect(
        "full pipe is written to", "what the kernel does not take at once is not written yet", SDK + "stdio.py",
        "                await self._has_room()\n", "",
        DEPARTURE + "test_a_call_that_waited_for_the_pipe_is_asked_when_it_is_written",
    ),
    defect(
        "connection keeps a call's lease", "what a connection says itself asks for no call's lease", CONNECTION,
        "        MAY_SEND.set(None)\n", "",
        DEPARTURE + "test_a_connection_outlives_the_lease_in_whose_context_it_was_opened",
    ),
    defect(
        "what people said is forgotten", "the next pin knows what people say of a server", "mcpcatalog/offers.py",
        "return self.config == config and self.config.overrides == config.overrides", "return True",
        "tests/integration/test_mcp_catalog.py"
        "::test_what_is_said_of_a_server_shows_in_the_next_pin_of_a_process_that_knows_it",
    ),
    defect(
        "another tenant's words pinned", "one tenant's spelling of a tool is never another's", "toolsys/pins.py",
        "if known is not None and known.is_of(spec):", "if known is not None:",
        "tests/unit/test_pins.py::test_another_tenants_spelling_of_a_declaration_is_not_pinned_for_this_one",
    ),
    defect(
        "client's secret said back", "what a token endpoint was shown is taken out of answers", SDK + "tokens.py",
        "return (*self._tokens, *self._client)", "return self._tokens",
        "tests/integration/mcp/test_secrets.py::test_no_secret_of_an_http_server_is_left_anywhere",
    ),
    defect(
        "burst past the bound", "a burst opens no more connections than a worker may hold", SDK + "pool.py",
        "if len(counted) + dialled < limit:", "if len(counted) < limit:",
        "tests/integration/mcp/test_pool.py::test_a_call_waits_for_room_and_a_burst_opens_no_more_than_there_is",
    ),
    defect(
        "a tenant takes every thread", "slow servers of one tenant leave threads to the others", "mcpcatalog/turns.py",
        "if self._taken[tenant_id] >= self._limit:", "if False:",
        "tests/unit/test_mcp_turns.py::test_slow_servers_of_one_tenant_leave_threads_to_the_others",
    ),
    defect(
        "refused calls uncounted", "each call is counted once, as it ended", "toolsys/store.py",
        'telemetry.settled(case, written.outcome_status, row["reason_code"], None)', "pass",
        "tests/integration/test_telemetry.py"
        "::test_a_refused_call_is_counted_and_what_no_session_offers_is_no_label",
    ),
    defect(
        "any skill of the tenant", "a session loads what its agent's globs name", "toolsys/selectors.py",
        "    if not any(fnmatchcase(name, glob) for glob in session.agent.enabled_tools):\n", "    if False:\n",
        SKILLS + "test_who_may_not_use_the_server_is_given_none_of_its_skills",
    ),
    defect(
        "skill without the server's scope", "who lacks a server's scope is given none of its skills", PROMPT,
        "if not server.required_scopes <= context.principal.scopes:", "if False:",
        SKILLS + "test_who_may_not_use_the_server_is_given_none_of_its_skills",
    ),
    defect(
        "unclassified server is told", "a server that nobody classified is told nothing by a control tool", PROMPT,
        "if state.config.classification.risk is RiskLevel.HIGH:", "if False:",
        SKILLS + "test_a_server_that_nobody_classified_is_told_nothing",
    ),
    defect(
        "undeclared arguments sent", "a prompt is sent the arguments that it declares", LOAD,
        "if missing or given.keys() - declared.keys():", "if missing:",
        SKILLS + "test_arguments_are_those_that_the_skill_declares_in_its_own_spelling",
    ),
    Defect(
        "skill called ours", "the text of a prompt is external and untrusted",
        (
            Edit(LOAD, "output_trust=TrustLevel.EXTERNAL_UNTRUSTED", "output_trust=TrustLevel.INTERNAL_TOOL"),
            Edit(LOAD, 'update={"structured": said}', 'update={"structured": said, "output_trust": None}'),
        ),
        (SKILLS + "test_a_prompt_is_loaded_as_labelled_and_enveloped_data",),
    ),
    defect(
        "one tenant takes every slot", "stalled servers of one tenant leave slots to the others",
        SDK + "slots.py", "asyncio.Semaphore(self._per_tenant[transport])", "asyncio.Semaphore(1_000)",
        "tests/integration/mcp/test_pool.py::test_stalled_servers_of_one_tenant_leave_slots_to_the_others",
        "tests/integration/mcp/test_pool.py::"
        "test_slow_programs_of_one_tenant_are_started_in_turn_with_those_of_others",
    ),
    defect(
        "listing without a slot", "a listing is within its preparation's hold", SDK + "pool.py",
        "        if look is not None:\n            await in_time(look(connection))\n    return",
        "        pass\n    if look is not None:\n        await in_time(look(connection))\n    return",
        SLOTS + "test_listings_count_among_the_preparations_whoever_lists",
    ),
    defect(
        "start kept while listing", "a process that has started lends its start to the next", SDK + "pool.py",
        "                    await has_started()\n", "",
        SLOTS + "test_a_process_that_has_started_lends_its_start_while_it_is_listed",
    ),
    defect(
        "open connection listed aside", "what is open is listed in a slot of its own", SDK + "pool.py",
        "async with self.slots.preparing(config.tenant_id, config.transport, is_open=True):",
        "if True:",
        SLOTS + "test_what_is_open_and_not_listed_is_listed_in_a_slot_of_its_own",
    ),
    defect(
        "no slot is the server's fault", "who found no slot says nothing of the server", "mcpcatalog/provider.py",
        "except OutOfConnections as error:", "except ZeroDivisionError as error:",
        SLOTS + "test_who_found_no_slot_says_nothing_about_the_server",
    ),
    defect(
        "contract open inside", "a contract is closed at whatever depth", "mcpcatalog/contracts.py",
        "yield from islice(closing.openings(self.input_schema), MAXIMUM_DEFECTS)", "yield from ()",
        "tests/unit/test_mcp_closing.py::test_what_is_open_inside_a_contract_is_named",
        "tests/unit/test_mcp_closing.py::"
        "test_a_contract_in_code_whose_parts_are_open_is_refused_where_it_is_composed",
    ),
    defect(
        "template for every URI", "a template has a scheme and stands for a part only", "mcpcatalog/resources.py",
        "if not _SCHEME.match(template) or not 0 <", "if not 0 <",
        "tests/unit/test_mcp_resources.py::test_a_template_permits_its_expansions",
    ),
    defect(
        "failed look is reused", "what failed is looked at anew", "mcpcatalog/staleness.py",
        "if failed is not None and has_failed(state):", "if False:",
        "tests/unit/test_mcp_provider.py::test_staleness",
        RECONNECTION + "test_while_a_server_is_away_sessions_pin_its_last_catalog_and_are_told_so",
    ),
    defect(
        "failed look pinned as live", "a session is told that it took what was remembered", "mcpcatalog/provider.py",
        "if state.config.server_id in keys and not has_failed(state) and", "if state.config.server_id in keys and",
        RECONNECTION + "test_a_session_whose_look_failed_took_what_was_remembered",
    ),
    defect(
        "pinned catalog forgotten", "what a session pinned is kept", "mcpcatalog/sql/60_retention.sql",
        "@> to_jsonb(c.old_hash));", "@> to_jsonb(''::text));",
        "tests/integration/mcp/test_retention.py::test_an_old_catalog_goes_unless_a_session_pinned_it",
    ),
    defect(
        "discovery under way not heeded", "a server whose discovery is under way is passed over",
        "mcpcatalog/sql/60_retention.sql", " FOR NO KEY UPDATE SKIP LOCKED;", ";",
        "tests/integration/mcp/test_retention.py::test_a_server_whose_discovery_is_under_way_is_passed_over",
    ),
    defect(
        "state given up while people think", "a session that waits keeps what its server would forget", SDK + "pool.py",
        "is_resting and (_remembers(connection) or not connection.is_idle)", "False",
        "tests/integration/mcp/test_upkeep.py::"
        "test_a_session_that_waits_for_people_keeps_only_what_its_server_would_forget",
    ),
    defect(
        "refused import shown again", "a refused import sends nothing of the text back", "mcpcatalog/forms.py",
        "        return None\n\n\nclass RulesForm", "        return str(value)\n\n\nclass RulesForm",
        "tests/integration/console/test_servers.py::test_a_refused_import_sends_nothing_of_the_text_back",
    ),
    defect(
        "slow start is another era", "a server that is slow to start is not mistaken for another era's",
        SDK + "handshake.py", "and not is_refused:", "and True:",
        "tests/integration/mcp/test_slow_start.py"
        "::test_who_starts_later_than_the_first_try_lasts_is_connected_all_the_same",
    ),
    defect(
        "churn without bound", "changes of a catalog in a day are bounded", "mcpcatalog/history.py",
        "if len(hashes) >= CHANGES_A_DAY:", "if False:",
        "tests/integration/mcp/test_history.py::test_changes_of_a_day_are_bounded_and_what_is_known_stays",
    ),
    defect(
        "bytes of churn without bound", "bytes of a day's catalogs are bounded", "mcpcatalog/history.py",
        "if kept + _size(generation) > BYTES_A_DAY:", "if False:",
        "tests/integration/mcp/test_history.py::test_bytes_of_a_day_are_bounded_and_the_next_day_has_room",
    ),
    defect(
        "late word after the end", "what is told late changes nothing of a finished check", "mcpcatalog/checking.py",
        "rows.filter(finished_at=None).update(rungs=", "rows.update(rungs=",
        PROGRESS + "test_a_late_word_changes_nothing_of_a_check_that_is_finished",
    ),
    defect(
        "ladder shown at the end", "a check shows each rung as it is passed", "mcpcatalog/checking.py",
        "        tell(checks.progress(config, seen))\n", "",
        PROGRESS + "test_a_check_that_waits_for_a_list_shows_what_is_passed_and_what_goes_on",
    ),
    defect(
        "renewal not committed before it is tried", "a killed worker's renewal stays spent", "mcpcatalog/ladder.py",
        "if await written(lambda: services.begin_reauthentication(server, session_id, at=now)):", "if True:",
        LADDER + "test_what_one_worker_spent_another_does_not_have",
    ),
    defect(
        "one login, many calls", "what was refused is what the call carried, not what is held", CONNECTION,
        "return refused.login != self._login.changes", "return False",
        LADDER + "test_calls_that_were_under_way_when_their_login_ended_try_what_one_of_them_obtained",
    ),
    defect(
        "refused between prepare and send", "who refuses our login is not dialled again", "mcpcatalog/tool.py",
        "            await self.ladder.end(self.server, context.session_id, self._reason_of(error))\n", "",
        LADDER + "test_a_login_that_is_refused_after_the_call_was_prepared_ends_the_server_as_well",
        LADDER + "test_a_401_while_connecting_ends_the_server_for_the_session_at_once",
    ),
    defect(
        "a worker behind", "a session's login on another worker ends no call here", "mcpcatalog/ladder.py",
        "connection.has_logged_in_since(refused) or await _caught_up(connection)",
        "connection.has_logged_in_since(refused)",
        LADDER + "test_a_call_that_was_under_way_while_its_session_logged_in_on_another_worker_catches_up_once",
    ),
    defect(
        "idle in a call", "a call in flight keeps its connection", CONNECTION,
        "if left <= 0 and not self._sent:", "if left <= 0:",
        "tests/integration/mcp/test_pool.py"
        "::test_a_call_in_flight_keeps_its_connection_and_starts_the_idle_time_anew",
    ),
    defect(
        "more than identifiers", "of us a server is told the execution's identifier alone", "mcpcatalog/tool.py",
        'return {META_PREFIX + "invocation-id": str(context.invocation_id)}',
        'return {META_PREFIX + "invocation-id": str(context.invocation_id), META_PREFIX + "tenant": context.tenant_id}',
        "tests/integration/mcp/test_contract_of_calls.py"
        "::test_of_us_a_server_is_told_the_execution_s_identifier_and_nothing_else",
    ),
    defect(
        "a release forgives", "a terminal end outlives the connection that it was met on", "mcpcatalog/provider.py",
        "        if standing.ended_by:\n", "        if False:\n",
        LADDER + "test_a_session_that_was_let_go_of_connects_with_the_key_of_then_and_keeps_what_it_spent",
    ),
    defect(
        "tokens for nobody", "no token is kept alive for a connection that nobody uses", SDK + "http.py",
        "may_log_in=is_waited_for and not is_aside", "may_log_in=True",
        "tests/integration/mcp/test_tokens.py::test_what_nobody_waits_for_is_not_worth_a_new_token",
    ),
    defect(
        "warm-up insists", "a refused login is not tried again by a warm-up", "mcpcatalog/provider.py",
        "return error.reason_code in selectors.REFUSED_LOGIN", "return False",
        "tests/integration/mcp/test_upkeep.py::test_a_server_that_refuses_the_login_is_not_asked_again_by_the_same_warm_up",
    ),
    defect(
        "proxy: surplus of its answer", "what a proxy says beyond its answer is no target's", "toolsys/forwarding.py",
        "if answer.index(_END) != len(answer) - len(_END):", "if False:",
        "tests/egress/test_forwarding.py::test_a_proxy_that_makes_no_tunnel_is_a_connection_that_was_not_made",
    ),
    defect(
        "proxy: its refusal is the server's", "a refusal of the proxy is not laid at the server's door", ERRORS,
        'if failure.reason == "proxy":', "if False:",
        "tests/integration/mcp/test_forwarding.py"
        "::test_a_proxy_that_opens_no_way_is_unavailable_for_every_class_and_nothing_was_sent",
    ),
    defect(
        "caps of everybody", "operators raise caps for one tenant's server", "mcpcatalog/rules.py",
        "self.schema_caps.get((tenant_id, server_id), USUAL)",
        "next((caps for (_, named), caps in self.schema_caps.items() if named == server_id), USUAL)",
        "tests/integration/mcp/test_schema_caps.py"
        "::test_a_deeper_schema_is_offered_and_checked_only_where_an_operator_said_so",
    ),
)  # fmt: skip

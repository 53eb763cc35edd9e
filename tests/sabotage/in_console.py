"""Defects of the pages of MCP servers: what waits for a review, what a fixed server declares, what operators
see, and what is imported.
"""

from typing import Final

from tests.sabotage.defect import Defect, Edit, defect

QUARANTINE, REVIEWS = "mcpcatalog/quarantine.py", "mcpcatalog/reviews.py"
SHOWN, PAGES = "mcpcatalog/review_selectors.py", "mcpcatalog/review_pages.py"
ENTRIES = "mcpcatalog/entries.py"
FLEET, CONTRACTS = "mcpcatalog/fleet_selectors.py", "mcpcatalog/contracts.py"
HELD: Final = "tests/integration/mcp/test_quarantine.py::"
REVIEW: Final = "tests/integration/console/test_reviews.py::"
FORMS: Final = "tests/integration/console/test_contract_forms.py::"
EVERYWHERE: Final = "tests/integration/console/test_fleet.py::"
AGAIN: Final = (
    "tests/integration/console/test_decision_page.py::test_an_approval_is_committed_before_anybody_is_rung_for"
)
MANIFESTS: Final = "tests/unit/test_mcp_manifests.py::"
IMPORTS: Final = "tests/integration/mcp/test_imports.py::"
SINCE: Final = (
    EVERYWHERE + "test_a_tool_that_changed_since_its_server_was_classified_is_listed_until_somebody_says_something"
)

CONSOLE_DEFECTS: Final[tuple[Defect, ...]] = (
    # -- uncertain calls
    defect(
        "console: a finding by anybody", "operators alone record what was found out", "toolsys/admin.py",
        "if not _may_record(request):", "if False:",
        "tests/integration/console/test_uncertain.py::test_nobody_else_records_a_finding",
    ),
    # -- quarantine
    defect(
        "console: nothing is held back", "what nobody accepted is offered to no new session", QUARANTINE,
        "return is_held and self.is_new(config, remote_name, declared)", "return False",
        HELD + "test_what_changed_or_is_new_waits_and_is_offered_when_somebody_has_accepted_it",
        REVIEW + "test_a_changed_tool_is_shown_beside_what_was_accepted_and_is_accepted",
    ),
    defect(
        "console: all servers held back", "a server that nobody reviewed holds nothing back", QUARANTINE,
        "is_held = self.is_asked and config.server_id in self.reviewed", "is_held = self.is_asked",
        HELD + "test_only_reviewed_servers_of_tenants_that_ask_for_it_are_held_back",
    ),
    Defect(
        "console: held back unasked", "nothing is held back where the tenant does not ask for it",
        (
            Edit(QUARANTINE, "is_held = self.is_asked and config", "is_held = config"),
            Edit("mcpcatalog/offers.py", "if not quarantine.is_asked(tenant_id):", "if False:"),
        ),
        (HELD + "test_only_reviewed_servers_of_tenants_that_ask_for_it_are_held_back",),
    ),
    defect(
        "console: accepted everywhere", "what was accepted at one endpoint waits at another", QUARANTINE,
        'return sha256_hex(endpoint.encode("utf-8", "surrogatepass"))', 'return sha256_hex(b"")',
        HELD + "test_the_same_declaration_at_another_endpoint_waits_again",
    ),
    defect(
        "console: stamp without endpoint", "an acceptance names the endpoint, too", REVIEWS,
        'sha256_hex(f"{row.endpoint}\\n{row.catalog_hash}".encode())', "sha256_hex(row.catalog_hash.encode())",
        HELD + "test_the_same_declaration_at_another_endpoint_waits_again",
    ),
    defect(
        "console: declared here waits", "what is declared here was written here and waits for nobody", QUARANTINE,
        "return config.mode is not CatalogMode.FIXED and not self.is_accepted(", "return not self.is_accepted(",
        HELD + "test_what_is_declared_here_never_waits",
    ),
    defect(
        "console: stale page accepts", "only the catalog that was seen is accepted", REVIEWS,
        "if not row.catalog_hash or seen != stamp(row):", "if not row.catalog_hash:",
        HELD + "test_a_catalog_that_changes_between_looking_and_accepting_is_not_accepted",
        REVIEW + "test_a_page_that_is_stale_accepts_nothing_and_shows_what_is_there_now",
    ),
    defect(
        "console: accepting without a lock", "an acceptance waits for the discovery before it", REVIEWS,
        "row = locked(tenant_id, server, DEFAULT_DB_ALIAS)", "row = McpServer.objects.get(pk=server)",
        HELD + "test_an_acceptance_waits_for_the_discovery_that_is_being_written_and_is_stale_then",
    ),
    defect(
        "console: accepting what is not there", "who names a tool that is not there accepts none", REVIEWS,
        "if len(rows) != len(set(tools)):", "if False:",
        HELD + "test_a_catalog_that_changes_between_looking_and_accepting_is_not_accepted",
    ),
    defect(
        "console: acceptances go", "an acceptance stays", "mcpcatalog/migrations/0013_reviews.py",
        'AppendOnly(["ToolReview"]),', "", HELD + "test_an_acceptance_stays_and_is_written_once",
    ),
    defect(
        "console: withheld without an event", "a session's events say what it was not given", QUARANTINE,
        "    if events:\n", "    if not events:\n",
        HELD + "test_what_changed_or_is_new_waits_and_is_offered_when_somebody_has_accepted_it",
    ),
    # -- the pages of reviews
    defect(
        "console: anybody accepts", "readers accept nothing", PAGES,
        "        if not may_accept:\n            raise PermissionDenied\n", "",
        REVIEW + "test_readers_see_admins_and_operators_accept_and_admins_ask",
    ),
    defect(
        "console: anybody asks", "only tenant admins say whether changes wait", PAGES,
        "        if not may_ask:\n            raise PermissionDenied\n", "",
        REVIEW + "test_readers_see_admins_and_operators_accept_and_admins_ask",
    ),
    defect(
        "console: accepted unseen", "what was not shown is not in the form", SHOWN,
        "for tool in waiting[:SHOWN]],\n        gone", "for tool in waiting],\n        gone",
        REVIEW + "test_the_first_fifty_are_shown_and_only_those_are_accepted",
    ),
    defect(
        "console: no diff", "a changed tool stands beside what was accepted", SHOWN,
        "before.get(tool.remote_name)) for tool in", "None) for tool in",
        REVIEW + "test_a_changed_tool_is_shown_beside_what_was_accepted_and_is_accepted",
    ),
    defect(
        "console: invisible in the diff", "a diff shows what is invisible", "mcpcatalog/comparing.py",
        "_WORDS.findall(inert.visible(before)), _WORDS.findall(inert.visible(after))",
        "_WORDS.findall(before), _WORDS.findall(after)",
        REVIEW + "test_a_changed_tool_is_shown_beside_what_was_accepted_and_is_accepted",
    ),
    defect(
        "console: diff against the first", "the diff is against what was accepted last", SHOWN,
        'found.order_by("id").values_list("remote_name", "declaration_hash")',
        'found.order_by("-id").values_list("remote_name", "declaration_hash")',
        REVIEW + "test_the_diff_is_against_what_was_accepted_last_and_what_is_gone_is_named",
    ),
    defect(
        "console: gone unsaid", "a review says which accepted tools are gone", SHOWN,
        "gone=[inert.visible(name) for name in names.exclude(remote_name__in=listed)[:GONE]],", "gone=[],",
        REVIEW + "test_the_diff_is_against_what_was_accepted_last_and_what_is_gone_is_named",
    ),
    defect(
        "console: generations mixed", "a tool of an old catalog is not counted", SHOWN,
        "        if (server_id, digest) in known\n", "",
        REVIEW + "test_servers_with_something_held_back_come_first_and_old_catalogs_count_nothing",
    ),
    defect(
        "console: reviews unsorted", "what is held back comes first", SHOWN,
        "return sorted(lines, key=lambda line: (not (line.is_reviewed and line.count), -line.count, ",
        "return sorted(lines, key=lambda line: (",
        REVIEW + "test_servers_with_something_held_back_come_first_and_old_catalogs_count_nothing",
    ),
    # -- contracts on forms
    defect(
        "console: contracts not shown", "an edit starts from what is declared", "mcpcatalog/admin.py",
        '    initial["fixed_tools"] = contracts_text(declared)\n', "",
        FORMS + "test_tools_are_declared_on_the_form_and_taken_back",
        FORMS + "test_a_form_can_start_from_what_the_server_lists_and_saves_nothing_by_itself",
    ),
    defect(
        "console: open contracts", "the arguments of a declared tool are closed", "mcpcatalog/validators.py",
        "        for defect in contract.defects():\n", "        for defect in ():\n",
        FORMS + "test_what_is_no_contract_is_refused_with_what_to_write",
        "tests/unit/test_mcp_validators.py::test_each_rule_names_its_field",
    ),
    defect(
        "console: unread contracts dropped", "what is no contract is refused, not left out", "mcpcatalog/drafts.py",
        "yield from (Problem(name, \"kind\", fault) for fault in contracts.faults(value or []))", "yield from ()",
        FORMS + "test_what_is_no_contract_is_refused_with_what_to_write",
    ),
    defect(
        "console: deep text fails", "JSON that is nested too deeply is refused", "mcpcatalog/forms.py",
        "except (ValueError, RecursionError):\n            raise ValidationError(\"This is nested",
        "except ZeroDivisionError:\n            raise ValidationError(\"This is nested",
        FORMS + "test_what_is_no_contract_is_refused_with_what_to_write",
    ),
    defect(
        "console: unused contracts", "tools are declared only where nothing else exists", "mcpcatalog/validators.py",
        "        if declared:\n            yield Problem(", "        if False:\n            yield Problem(",
        FORMS + "test_declared_tools_need_a_fixed_server",
    ),
    defect(
        "console: listed as it is", "what a server lists is closed before it is declared", CONTRACTS,
        'closed = {**closing.closed(input_schema), "additionalProperties": False}', "closed = input_schema",
        FORMS + "test_a_form_can_start_from_what_the_server_lists_and_saves_nothing_by_itself",
    ),
    defect(
        "console: operators edit all", "operators edit programs, and nobody else's servers", "mcpcatalog/admin.py",
        "return has_role(request, Role.OPERATOR) if page.is_operators else has_role(request, Role.TENANT_ADMIN)",
        "return has_role(request, Role.OPERATOR, Role.TENANT_ADMIN)",
        FORMS + "test_operators_edit_programs_and_nobody_else_s_servers",
        "tests/integration/console/test_servers.py::test_readers_see_and_only_the_right_ones_act",
    ),
    # -- the operators' page
    defect(
        "console: operator of everybody", "an operator sees whose operator they are", "mcpcatalog/fleet_pages.py",
        "tenants_as(user.pk, Role.OPERATOR) if user", "tenants_as(user.pk, Role.TENANT_ADMIN) if user",
        EVERYWHERE + "test_an_operator_sees_their_organisations_and_classifies_in_each",
        EVERYWHERE + "test_nobody_else_sees_it_and_nothing_is_posted_to_it",
    ),
    defect(
        "console: looking unlogged", "looking across organisations is logged", "mcpcatalog/fleet_pages.py",
        '    log.info("operators.fleet_viewed"', '    log.debug("operators.fleet_viewed"',
        EVERYWHERE + "test_an_operator_sees_their_organisations_and_classifies_in_each",
    ),
    defect(
        "console: posted to everywhere", "nothing is posted to a page that changes nothing",
        "mcpcatalog/fleet_pages.py",
        'if request.method != "GET" or not tenants:', "if not tenants:",
        EVERYWHERE + "test_nobody_else_sees_it_and_nothing_is_posted_to_it",
    ),
    defect(
        "console: classified ones listed", "what is classified is not listed as unclassified", FLEET,
        "rows.filter(classified_at=None) if is_unclassified else rows", "rows",
        EVERYWHERE + "test_an_operator_sees_their_organisations_and_classifies_in_each",
    ),
    defect(
        "console: every tool is new", "what was there when a server was classified is not new", FLEET,
        "if first > server.classified_at and not is_said:", "if not is_said:",
        SINCE,
    ),
    defect(
        "console: said and still new", "a tool that operators spoke of is not new", FLEET,
        "if first > server.classified_at and not is_said:", "if first > server.classified_at:",
        SINCE,
    ),
    Defect(
        "console: listed again is new", "a declaration is as old as its first listing",
        (
            Edit(FLEET, "from django.db.models import Min", "from django.db.models import Max"),
            Edit(FLEET, 'annotate(first=Min("created_at"))', 'annotate(first=Max("created_at"))'),
        ),
        (SINCE,),
    ),
    defect(
        "console: old catalogs everywhere", "operators see the newest catalog of each server", FLEET,
        "return [tool for tool in found if newest.get((tool.tenant_id, tool.server_id)) == tool.catalog_hash]",
        "return list(found)",
        EVERYWHERE + "test_each_server_has_the_tools_of_its_own_newest_catalog_and_pages_lead_to_the_rest",
    ),
    defect(
        "console: the same said unheard", "saying the same again is said of what is listed now",
        "mcpcatalog/classifying.py",
        "        row.classified_at = timezone.now()\n",
        "        row.classified_at = row.classified_at or timezone.now()\n",
        SINCE,
    ),
    defect(
        "console: moved and still classified", "a tenant cannot say when a server was classified",
        "mcpcatalog/sql/10_guards.sql",
        "'is_stateless',\n        'classified_at'];", "'is_stateless'];",
        EVERYWHERE + "test_what_moves_is_unclassified_again_and_only_operators_say_otherwise",
    ),
    defect(
        "import: key left in the URL", "a key of a URL's query becomes a credential", ENTRIES,
        "        if says_secret(unquote_plus(name)):\n", "        if False:\n",
        MANIFESTS + "test_a_secret_leaves_the_entry_wherever_it_stands",
        MANIFESTS + "test_what_of_a_query_is_no_secret_stays_as_it_was_written",
        IMPORTS + "test_a_secret_of_the_file_is_sealed_and_in_no_row_event_or_line",
    ),
    defect(
        "import: variable not taken", "the secret variable of a program becomes a credential", ENTRIES,
        "if len(secret) == 1 and isinstance(environment[secret[0]], str):", "if False:",
        MANIFESTS + "test_a_program_of_any_shape_is_one_command_line_and_its_secret_variable_a_scheme",
        IMPORTS + "test_the_secret_variable_of_an_operator_s_program_is_sealed_and_given_to_it",
    ),
    defect(
        "import: argument said back", "what stands among arguments is repeated nowhere", ENTRIES,
        "argv: tuple[str, ...] = field(default=(), repr=False)", "argv: tuple[str, ...] = ()",
        MANIFESTS + "test_a_secret_that_a_program_cannot_be_given_is_not_kept_and_said",
    ),
    defect(
        "import: opencode unread", "every shape of a list of servers is read", "mcpcatalog/manifests.py",
        "return inner if found is None or _is_server(found) else found", "return found",
        MANIFESTS + "test_every_shape_gives_the_same_server",
    ),
    Defect(
        "import: programs for tenants", "a program is an operator's to take",
        (
            Edit("mcpcatalog/imports.py", 'if entry.refusal != "entry.stdio" or not self.is_operator:',
                 'if entry.refusal != "entry.stdio":'),
            Edit("mcpcatalog/validators.py",
                 'if server.transport is Transport.STDIO:\n        yield Problem("transport", "operators_only"',
                 'if False:\n        yield Problem("transport", "operators_only"'),
        ),
        (IMPORTS + "test_a_program_is_taken_by_operators_where_the_deployment_defines_its_command_line",),
    ),
    defect(
        "import: plan promises too much", "a plan refuses what writing would refuse", "mcpcatalog/imports.py",
        "        return (*found, *secret)\n", "        return found\n",
        IMPORTS + "test_a_plan_writes_nothing_and_says_what_an_import_then_does",
    ),
    defect(
        "console: erased unasked", "erasing a credential asks first", "mcpcatalog/admin.py",
        'if taken and "sure" not in request.POST:', "if False:",
        "tests/integration/console/test_servers.py"
        "::test_a_credential_is_rotated_with_two_versions_live_and_taken_back",
    ),
    defect(
        "console: a page that never looks again", "a page of what goes on looks again by itself", "toolsys/console.py",
        '        response["Refresh"] = str(seconds)\n', "        pass\n", AGAIN,
    ),
    defect(
        "console: a page that cannot be kept still", "whoever reads a page can keep it still", "toolsys/console.py",
        'return "still" in request.GET', "return False", AGAIN,
    ),
    defect(
        "console: a number without words", "the badge says in words what its number counts",
        "templates/admin/base_site.html", '<span class="visually-hidden"> waiting for you</span>', "",
        "tests/integration/console/test_decision_page.py"
        "::test_the_badge_of_every_page_says_in_words_what_its_number_counts",
    ),
)  # fmt: skip

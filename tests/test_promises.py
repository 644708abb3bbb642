"""Each promise of the page of guarantees has tests: a row of a table there is a row here."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "explanation" / "guarantees.md").read_text()

# fmt: off
SHOWN = {
    "Guarantees": {
        "a confirmed publish is on disk": "proof/stores/test_power_loss.py faces/xmpp/test_kills.py",
        "what is delivered is what was published": "engine/test_damage.py",
        "a version is committed once, or not at all": "engine/test_damaged_transactions.py",
        "an item is with one worker at a time": "engine/test_machine.py proof/faults_run/test_faults_run.py",
        "no item is dropped": "scenarios/queue-full.txt scenarios/quota-of-an-account.txt engine/test_quotas.py::"
                              "test_a_dead_item_stays_at_home_where_its_place_is_of_another_account_that_is_full "
                              "rules/test_expire.py::test_the_last_failure_allowed_is_the_end",
        "nobody's queue holds up a publisher but those of owners and publishers": "engine/test_guests.py rules/test_feed.py::"
                              "test_a_queue_of_a_guest_refuses_nothing_and_counts_what_it_could_not_take",
        "each item is done at least once": "engine/test_simulated.py proof/faults_run/test_faults_run.py",
        "with automatic acknowledgement it is done at most once": "faces/rest/hornetq/test_pulling.py::"
                              "test_a_message_that_the_system_has_not_taken_is_not_done faces/stomp/test_kept.py::test_what_the_socket_has_not_taken_is_not_done",
        "a publish may be repeated": "scenarios/publish-known-answers.txt rules/test_publish.py::"
                                     "test_the_same_work_again_succeeds_and_changes_nothing",
        "an item of [an outbox](../how-to/outbox.md) is published exactly if its transaction was committed": "xeps/outbox/test_relay.py e2e/test_outbox.py "
                              "proof/outbox/test_killed_relays.py",
        "a batch is published once, all of it or nothing": "proof/kills/test_transaction_fault_points.py engine/test_transaction_machine.py",
    },
    "The same id again": {
        "nothing, or work that was done longer ago than `x-queueing#dedup_window`": "scenarios/publish-known-answers.txt",
        "work that was done within the window": "scenarios/publish-known-answers.txt",
        "a waiting item": "scenarios/queue-publish-again.txt rules/test_publish.py::"
                              "test_another_payload_replaces_that_of_a_waiting_item model/test_after.py::"
                              "test_another_payload_keeps_all_but_headers_and_publisher",
        "a locked item": "rules/test_publish.py::test_another_payload_for_work_in_progress_is_a_conflict",
        "a dead item": "rules/test_publish.py::test_another_payload_for_dead_work_is_a_conflict_for_it_would_wait_in_vain",
    },
    "Order": {
        "with a limit of 1": "engine/test_groups.py::test_a_released_or_failed_item_keeps_its_turn_and_its_group_waits"
                             " engine/test_groups.py::test_two_processes_keep_to_one_limit",
        "with a higher limit": "engine/test_groups.py::test_with_a_limit_of_two_the_other_goes_on engine/test_groups.py::"
                               "test_the_higher_priority_of_several_turns_of_a_group_is_delivered_first",
        "sent ahead (`x-queueing#group_ahead`)": "engine/test_ahead_machine.py engine/test_ahead.py::"
                                         "test_one_that_fails_brings_back_all_that_was_sent_after_it",
        "with a delay set by the publisher": "engine/test_groups.py::"
                                         "test_a_delayed_item_joins_its_group_when_it_is_due_and_blocks_no_other",
    },
    "Over several services": {
        "a confirmed publish, at least once, one worker at a time": "e2e/test_services.py::"
                              "test_a_service_that_is_killed_takes_only_its_share_and_nothing_is_lost",
        "the same id again": "e2e/test_services.py::test_one_service_more_joins_with_items_in_flight_and_no_group_moves "
                              "xeps/wire/test_services.py::test_a_key_goes_where_it_has_always_gone",
        "the order in a group": "e2e/test_services.py::test_a_group_is_at_one_service_and_keeps_its_order",
        "one that is away": "e2e/test_services.py::test_what_waits_for_a_service_that_stays_away_ends_by_itself",
        "a batch of Spark": "spark/test_services.py::test_a_driver_that_is_killed_between_two_commits "
                              "spark/test_services.py::test_another_list_of_services_does_not_complete_it",
    },
    "What counts as a failure": {
        "it expired": "scenarios/queue-lock-timeout.txt rules/test_expire.py::"
                        "test_the_first_failure_costs_no_pause_and_each_further_one_twice_the_last",
        "the server reported that its worker is gone": "scenarios/queue-unavailable.txt",
        "the delivery bounced": "scenarios/queue-bounce.txt",
        "unlocked with the outcome `failed`, as a worker does after an exception": "scenarios/queue-outcomes.txt",
        "unlocked, or with the outcome `release`": "scenarios/queue-plain-unlock-is-no-failure.txt",
        "unlocked with the outcome `reject`": "scenarios/queue-dead-letter.txt",
        "the service was restarted": "scenarios/queue-restart.txt",
    },
    "What may be killed": {
        "a worker": "scenarios/queue-connection-lost.txt proof/faults/test_stuck_worker.py",
        "a publisher": "e2e/test_publisher.py",
        "the service": "faces/xmpp/test_kills.py e2e/test_taken_up.py",
        "the XMPP server": "proof/faults_run/test_faults_run.py proof/faults/test_stuck_server.py",
        "PostgreSQL": "proof/faults/test_losing_postgres.py faults/test_cut_database.py",
        "the machine": "proof/stores/test_power_loss.py",
    },
}
# fmt: on


def promises():
    """Return the first cells of the tables of the page, by the heading that they stand under."""
    found, heading = {}, ""
    for line in PAGE.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| ") and not line.startswith("| ---"):
            found.setdefault(heading, []).append(line.split("|")[1].strip())
    return {heading: rows[1:] for heading, rows in found.items()}  # without the heads of columns


@cache
def functions(file):
    tree = ast.parse(file.read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_each_row_of_the_page_is_here():
    assert promises() == {heading: list(rows) for heading, rows in SHOWN.items()}


def test_the_tests_named_exist():
    shown = {one for rows in SHOWN.values() for row in rows.values() for one in row.split()}
    files = {one: (place(one.partition("::")[0]), one.partition("::")[2]) for one in shown}
    gone = {
        one
        for one, (path, name) in files.items()
        if not path.exists() or (name and name not in functions(path))
    }
    assert gone == set()


def place(file):
    return ROOT / (file if file.startswith("proof/") else f"tests/{file}")

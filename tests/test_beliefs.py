"""Each row of the table of what is noted about the world has an end in each case, and tests of it."""

from pathlib import Path

from test_promises import functions, place

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "decisions" / "0142-nothing-is-believed-for-ever.md"
CASES = ("after a restart", "after a cut stream", "after silence")

SILENT = "engine/test_silent_workers.py"
BOUNCES = "faces/xmpp/test_bounces.py"
DELIVERIES = "faces/xmpp/test_deliveries.py"
CONTRACT = "faces/contract.py"
REAPER = "engine/test_reaper.py"
# fmt: off
SHOWN = {
    "who is present": f"e2e/test_presence.py scenarios/queue-subscribed-without-presence.txt {SILENT}::"
        f"test_who_keeps_the_work_of_an_account_is_asked_when_another_leaves_and_may_be_gone {SILENT}::"
        f"test_who_is_present_for_an_account_that_holds_items_is_pinged_like_a_holder {SILENT}::test_after_an_hour_all_are_asked_again",
    "who has shown itself": f"scenarios/queue-gone-unnoticed.txt {SILENT}::"
        f"test_when_a_stream_begins_all_are_asked_and_who_is_not_there_has_left {SILENT}::"
        f"test_a_holder_that_its_server_reports_as_gone_has_left_at_once {SILENT}::test_after_an_hour_all_are_asked_again",
    "what its client can do": "stores/of_nodes.py::test_what_a_client_can_do_is_kept_while_its_resource_is_here "
        f"{DELIVERIES}::test_for_the_setting_of_a_queue_the_client_is_asked_once_it_comes",
    "presence of newcomers": "faces/xmpp/test_face.py::test_presence_of_newcomers_ends_with_the_stream "
        "engine/test_strangers.py::test_newcomers_are_remembered_in_so_many_bytes",
    "open pings": f"{BOUNCES}::test_nothing_is_awaited_on_a_stream_that_is_lost {BOUNCES}::test_the_pings_that_wait_are_bounded "
        f"{SILENT}::test_a_holder_that_answers_nothing_is_pinged_twice_and_has_left",
    "who has no XEP-0199": f"{BOUNCES}::test_a_client_without_pings_is_asked_for_its_features {BOUNCES}::"
        f"test_who_has_no_pings_is_remembered_while_there_is_room {BOUNCES}::"
        "test_two_instances_agree_on_a_client_without_pings_wherever_its_answers_come",
    "an answer to another instance's ping": "rules/test_presence.py::test_an_answer_at_another_instance_is_noted_of_holders "
        "rules/test_presence.py::test_a_holder_that_answered_elsewhere_has_not_left",
    "unanswered deliveries": f"{DELIVERIES}::test_a_delivery_that_may_be_lost_is_repeated_at_its_level "
        f"{DELIVERIES}::test_an_unanswered_delivery_is_free_with_all_others_without_a_failure "
        "engine/test_redelivery.py::test_deliveries_on_a_broken_stream_are_repeated",
    "clients that refuse a level": f"{DELIVERIES}::test_each_error_of_an_answer {DELIVERIES}::"
        "test_a_client_that_refused_a_level_is_asked_again_when_others_need_its_place",
    "that a subscriber is available": "scenarios/queue-silent-worker.txt rules/test_expire.py::"
        "test_a_subscriber_whose_full_window_times_out_gets_nothing_more",
    "that a subscriber's deliveries bounce": "scenarios/queue-bounce-wait.txt scenarios/queue-bounce-passes.txt",
    "rosters that a server grants": "faces/xmpp/test_signals.py::"
        "test_with_the_stream_grants_end_and_waiting_requests_are_answered faces/xmpp/test_signals.py::"
        "test_a_roster_that_does_not_come_is_not_waited_for",
    "locks": f"scenarios/queue-lock-timeout.txt {REAPER}::test_expiries_while_the_service_was_down_are_processed_at_the_start "
        f"{REAPER}::test_a_clock_set_back_makes_no_lock_last_longer_than_a_new_one",
    "connections of clients": f"{CONTRACT}::test_what_the_clients_of_an_instance_that_died_held_is_released "
        f"{CONTRACT}::test_an_instance_that_begins_ends_what_was_left_under_its_number "
        f"{CONTRACT}::test_a_connection_that_breaks_is_a_failure_and_one_that_is_closed_is_none "
        "faces/listener/test_listener.py::test_a_client_that_is_silent_for_too_long_is_closed_and_one_that_is_not_read_is_not_silent "
        "faces/listener/test_listener.py::test_a_client_whose_machine_is_gone_is_noticed_by_the_kernel "
        f"{SILENT}::test_connections_of_a_former_life_that_earlier_versions_noted_are_forgotten",
    "takes that wait": f"{CONTRACT}::test_what_was_taken_returns_when_the_client_goes "
        f"{CONTRACT}::test_a_client_that_breaks_while_it_waits_gets_nothing {CONTRACT}::"
        "test_where_there_is_nothing_the_answer_is_empty_and_where_there_is_no_queue_a_refusal",
    "instances that are alive": "stores/postgres/test_instances.py::"
        "test_an_instance_that_was_cut_off_is_fenced_after_another_took_its_number engine/test_other_processes.py::"
        "test_work_of_a_dead_process_is_continued_within_five_seconds",
    "claims of registrations of pushes": "rules/test_registrations.py::"
        "test_one_instance_works_a_registration_until_its_claim_ends rules/test_registrations.py::"
        "test_a_claim_that_a_clock_ahead_has_made_holds_up_nobody",
    "consumers of HornetQ": "faces/rest/hornetq/test_pulling.py::test_consumers_hold_over_a_restart "
        "faces/rest/hornetq/test_pulling.py::test_an_idle_consumer_is_closed_and_made_again_by_its_link "
        "faces/rest/hornetq/test_pulling.py::test_a_consumer_of_a_clock_that_was_ahead_is_idle_as_soon_as_others",
    "assured messages that are held": "engine/test_kept_messages.py::test_held_ends_in_time_and_answers_are_forgotten",
}
# fmt: on


def rows():
    """Return the cells of the table, by what is noted, each by the head of its column."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    (_, *heads), _, *cells = [[one.strip() for one in line.strip("|").split("|")] for line in lines]
    return {noted: dict(zip(heads, rest, strict=True)) for noted, *rest in cells}


def test_each_row_has_an_end_in_each_case_and_tests():
    assert list(rows()) == list(SHOWN)
    without = [
        (noted, case) for noted, cells in rows().items() for case in CASES if not cells[case]
    ]
    assert without == []


def test_the_tests_named_exist():
    named = {one for tests in SHOWN.values() for one in tests.split()}
    files = {one: (place(one.partition("::")[0]), one.partition("::")[2]) for one in named}
    gone = {
        one
        for one, (path, name) in files.items()
        if not path.exists() or (name and name not in functions(path))
    }
    assert gone == set()

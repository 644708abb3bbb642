"""How PostgreSQL runs each statement: by index, whatever it has counted of the tables, and whenever that was.

A plan is made once for a connection, and anew only when a table has been counted again; meanwhile an empty queue may have
become a long one. So the plans are looked at in three states: of tables that were never counted, of full ones, and of ones
that were counted while they were empty.
"""

import re

import pytest

from pubqueue.engine.listings import SUMMED
from pubqueue.stores.postgres.connection import completed, connected
from pubqueue.stores.postgres.schema import SQL, prepare

FULL = """
    SET search_path = pubqueue;
    INSERT INTO node (name, config, creator, created)
        SELECT 'n' || g, '{"queueing": true, "access_model": "open"}', 'b@x', 1 FROM generate_series(1, 2000) g;
    INSERT INTO contents SELECT id, id FROM node;
    INSERT INTO contents SELECT 1099511627776 + g, NULL FROM generate_series(1, 50) g;
    INSERT INTO former_node SELECT 100000 + g, 'f' || g, g % 2 = 0 FROM generate_series(1, 200) g;
    INSERT INTO review SELECT id FROM node WHERE id < 100;
    INSERT INTO trim SELECT id FROM node WHERE id < 100;
    INSERT INTO overwritten SELECT g, 1 + g % 2000, g FROM generate_series(1, 9000) g;
    INSERT INTO affiliation SELECT id, 'b@x', 'owner' FROM node;
    INSERT INTO affiliation SELECT 1, 'a' || g || '@x', 'member' FROM generate_series(1, 5000) g;
    INSERT INTO subscription (node_id, jid, account, subid, queue_requests)
        SELECT 1 + g % 7, 'a' || g || '@x/r', 'a' || g || '@x', 's' || g, 3 FROM generate_series(1, 5000) g;
    INSERT INTO subscription (node_id, jid, account, subid, queue_requests)
        SELECT g, 'one@x/r', 'one@x', 't' || g, 3 FROM generate_series(1, 2000) g;
    UPDATE subscription SET several = '[{"subid": "s"}, {"subid": "t"}]' WHERE node_id = 3 AND jid LIKE 'a%';
    INSERT INTO resource SELECT g, 'a' || g || '@x/r', 'a' || g || '@x' FROM generate_series(1, 5000) g;
    INSERT INTO item (seq, node_id, id, state, publisher, published, due, expires, holder, deadline, taken, dead_at, death, payload,
        group_name, turn)
        SELECT g, CASE WHEN g % 3 = 0 THEN 1 + g % 2000 ELSE 1 END, 'i' || g,
            (ARRAY['queued', 'queued', 'queued', 'locked', 'delayed', 'dead'])[1 + g % 6], 'e@x', 1,
            CASE WHEN g % 6 = 4 THEN g END, CASE WHEN g % 5 = 0 THEN g END, CASE WHEN g % 6 = 3 THEN 'a' || g % 50 || '@x/r' END,
            CASE WHEN g % 6 = 3 THEN g END, CASE WHEN g % 6 = 3 THEN g END, CASE WHEN g % 6 = 5 THEN g END,
            CASE WHEN g % 6 = 5 THEN g END, 'x',
            CASE WHEN g % 7 < 3 THEN 'g' || g % 900 END, CASE WHEN g % 7 < 3 AND g % 6 < 5 AND (g % 6 = 3 OR g % 9 = 0) THEN 100000 + g END
        FROM generate_series(1, 20000) g;
    INSERT INTO receipt SELECT g, 'a' || g % 50 || '@x/r' FROM generate_series(1, 10000) g;
    INSERT INTO finished SELECT 1, 'd' || g, 'x', g FROM generate_series(1, 10000) g;
    INSERT INTO used_key SELECT 'k' || g, 'a' || g % 50 || '@x', 'x', g, 9, '[]', '[]' FROM generate_series(1, 10000) g;
    INSERT INTO ping_answer SELECT 'a' || g || '@x/r', g, g FROM generate_series(1, 10000) g;
    INSERT INTO answered SELECT g, g % 2, g FROM generate_series(1, 10000) g;
    INSERT INTO key_total SELECT 'a' || g || '@x', 9 FROM generate_series(1, 10000) g;
    INSERT INTO registration SELECT 'r' || g, 'a', 'n', true, 'x', false, 0, '', 0, '', '', 0, 1 FROM generate_series(1, 1000) g;
    INSERT INTO kept_message SELECT 'm' || g, 's', 'a' || g % 50, 'i', 'q', '', 1, g % 2, '', g, CASE WHEN g % 2 = 1 THEN ''::bytea END
        FROM generate_series(1, 10000) g;
    INSERT INTO message_total SELECT 'a' || g, g % 2, g % 2, 1 FROM generate_series(1, 10000) g;
    INSERT INTO forwarded SELECT lpad((g % 5)::text, 12, '0') || '.a.' || g, 'x' FROM generate_series(1, 10000) g;
    INSERT INTO feeding SELECT 'm' || g, g, 'x' FROM generate_series(1, 1000) g;
    INSERT INTO fed_message SELECT 'm' || g, 'x' FROM generate_series(1, 10000) g;
    INSERT INTO secret SELECT 's' || g, 'x' FROM generate_series(1, 1000) g;
    INSERT INTO alert SELECT 'a' || g, g, 'x', 0, g FROM generate_series(1, 10000) g;
    INSERT INTO alert_watch SELECT 'w' || g, '1', g FROM generate_series(1, 1000) g;
    INSERT INTO settled SELECT g, 'x', 'retract', g FROM generate_series(1, 10000) g;
    INSERT INTO txn_app (name, owner, used) SELECT 'app' || g, 'e' || g || '@x', g FROM generate_series(1, 500) g;
    INSERT INTO txn (app_id, owner, version, immediate, began, until, committed)
        SELECT 1 + g % 500, 'e' || g % 500 || '@x', g, false, g, g, CASE WHEN g % 10 > 0 THEN g END FROM generate_series(1, 5000) g;
    INSERT INTO attempt (txn_id, part, number, committed)
        SELECT CASE WHEN g % 90 > 0 THEN 1 + g % 5000 END, g, g % 3, g % 50 = 0 FROM generate_series(1, 9000) g;
    INSERT INTO staged
        SELECT 1 + g % 9000, g, 1 + g % 5000, 'n' || g % 2000, 's' || g, 'queued', 0, NULL, NULL, false, 1, NULL, 'x'
        FROM generate_series(1, 20000) g;
    INSERT INTO schedule SELECT 's' || g, '{}', 'file', 'b@x', g, CASE WHEN g % 2 = 0 THEN g END FROM generate_series(1, 1000) g;
    INSERT INTO sample SELECT 1 + g % 300, 60000 * (g / 300), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 FROM generate_series(1, 20000) g;
    INSERT INTO staged_usage SELECT 'e' || g || '@x', 1, 1 FROM generate_series(1, 500) g;
    INSERT INTO event (seq, at, kind, node_id, detail)
        SELECT g, g, 'published', 1 + g % 2000, '' FROM generate_series(1, 20000) g;
    ANALYZE;
"""
OF_A_COMMIT = {"winner", "met"}
"""Tables that hold no more than what one commit works with, and are walked for it."""
WALKS = {
    "without_sum": "an index of rows of earlier versions alone",
    "done_without_sum": "likewise",
    **{f"{table}_without_sum": "likewise" for table in SUMMED},
    "forget_moved": "10,000 places of deleted nodes at most, when another is noted",
    "sweep_usage": "accounts of which something waits; not in the way of a batch",
    "count_nodes": "who asks for the number of all nodes waits for it",
    "next_due": "one end of each index",
    "aged": "stops at the first event that is not old",
    "anything_to_sweep": "one entry of each index that has nothing but litter",
    "reviews": "as many as are under review",
    "node_entries": "locks, of which there are no more than windows",
    "unmoved": "commits under way",
    "unfed": "publishes under way",
    "seeks_under_way": "seeks under way",
    "sweep_staged": "ends with the slice",
    "sweep_attempts": "ends with the slice",
    "orphans": "an index that has nothing but litter",
    "sweep_done": "an index that has nothing but litter",
    "sweep_places": "an index that has nothing but litter",
    "sweep_contents": "an index that has nothing but litter",
    "sweep_subscriptions": "ends with the slice",
    "sweep_affiliations": "ends with the slice",
    "sweep_nodes": "former nodes",
    **dict.fromkeys(
        (
            *(
                "open_version",
                "drop_attempts_at_version",
                "waiting_version",
                "attempts_of",
                "place",
            ),
            *("add_attempt", "change_attempt", "drop_attempt"),
        ),
        "open versions",
    ),
}
"""What may walk an index from its beginning, and why."""
PLANS = {
    "node_ids": "node_name_key (name)",
    "node_names": "node_pkey (id)",
    "contents_of": "node_name_key (name)",
    "nodes_holding": "contents_pkey (id)",
    "nodes": "node_name_key (name)",
    "subscriptions": "subscription_account (account node_id)",
    "subscribers": "(node_id)",
    "accounts": "subscription_account (account)",
    "jids": "subscription_jid (left)",
    "resources": "resource_account (account)",
    "items": "item_node_id_id_key (node_id id)",
    "done_items": "done_item_published (node_id published)",
    "shown_done": "done_item_number (node_id",
    "done_named": "done_item_id (node_id id)",
    "newest_done": "done_item_number (node_id)",
    "keep_item": "item_pkey (seq)",
    "revive_item": "done_item_pkey (seq)",
    "drop_done_item": "done_item_pkey (seq)",
    "seeks": "seek_pkey (node_id)",
    "change_seek": "seek_pkey (node_id)",
    "drop_seek": "seek_pkey (node_id)",
    "queues_that_keep": "node_done (name)",
    "numbers": "item_pkey (seq)",
    "held": "item_held (left)",
    "held_numbers": "item_held (left)",
    "held_by": "item_held (left)",
    "holders_of": "item_held (left)",
    "known_resources": "resource_jid (left)",
    "count_held_by": "item_held (left)",
    "payloads": "item_pkey (seq)",
    "receipts": "receipt_of_item (seq)",
    "finished": "finished_pkey (node_id id)",
    "settled": "settled_pkey (token)",
    "change_settled": "settled_pkey (token)",
    "drop_settled": "settled_pkey (token)",
    "forget_settled": "settled_until (until)",
    "ping_answers": "ping_answer_jid (left)",
    "change_ping_answer": "ping_answer_jid (left)",
    "drop_ping_answer": "ping_answer_jid (left)",
    "forget_ping_answers": "ping_answer_until (until)",
    "answered_deliveries": "answered_pkey (token)",
    "change_answered": "answered_pkey (token)",
    "drop_answered": "answered_pkey (token)",
    "forget_answered": "answered_until (until)",
    "used_keys": "used_key_pkey (mark)",
    "change_used_key": "used_key_pkey (mark)",
    "drop_used_key": "used_key_pkey (mark)",
    "forget_used_keys": "used_key_until (until)",
    "key_totals": "key_total_pkey (account)",
    "change_key_total": "key_total_pkey (account)",
    "drop_key_total": "key_total_pkey (account)",
    "free_keys": "key_total_pkey (account)",
    "drop_free_keys": "key_total_pkey (account)",
    "kept_messages": "kept_message_pkey (mark)",
    "change_kept_message": "kept_message_pkey (mark)",
    "drop_kept_message": "kept_message_pkey (mark)",
    "message_bytes": "kept_message_pkey (mark)",
    "messages_over": "kept_message_until (until)",
    "messages_of": "kept_message_account (account held)",
    "message_totals": "message_total_pkey (account)",
    "change_message_total": "message_total_pkey (account)",
    "drop_message_total": "message_total_pkey (account)",
    "message_accounts": "message_total_held (account)",
    "registrations_of": "registration_pkey (name)",
    "change_feeding": "feeding_pkey (mark)",
    "drop_feeding": "feeding_pkey (mark)",
    "change_fed_message": "fed_message_pkey (name)",
    "drop_fed_message": "fed_message_pkey (name)",
    "forwarded_to": "forwarded_pkey (mark)",
    "change_forwarded": "forwarded_pkey (mark)",
    "drop_forwarded": "forwarded_pkey (mark)",
    "change_registration": "registration_pkey (name)",
    "drop_registration": "registration_pkey (name)",
    "all_alerts": "alert_pkey (name)",
    "change_alert": "alert_pkey (name)",
    "drop_alert": "alert_pkey (name)",
    "change_alert_watch": "alert_watch_pkey (name)",
    "drop_alert_watch": "alert_watch_pkey (name)",
    "change_secret": "secret_pkey (name)",
    "drop_secret": "secret_pkey (name)",
    "apps": "txn_app_name_key (name)",
    "count_apps": "txn_app_name_key (name)",
    "waiting": "staged_usage_pkey (account)",
    "ready_places": "item_ready (node_id)",
    "group_turns": "item_turn (node_id group_name)",
    "group_taken": "item_turn (node_id group_name)",
    "ready_items": "item_pkey (seq)",
    "due_locks": "item_deadline (deadline)",
    "due_lives": "item_expires (expires)",
    "due_delayed": "item_due (due)",
    "due_held": "item_until (due)",
    "holdings": "node_creator (creator)",
    "page_nodes": "node_name_key (name)",
    "nodes_pushed": "node_pushed (name)",
    "nodes_named": "node_name_key (name)",
    "free_subscriptions": "subscription_free (node_id)",
    "numbered": "item_pkey (seq)",
    "nodes_of_account": "affiliation_account (jid)",
    "subscriptions_of_account": "subscription_account (account)",
    "config": "node_pkey (id)",
    "count_node": "node_pkey (id)",
    "spend_rate": "node_pkey (id)",
    "change_subscription": "subscription_subid_key (subid)",
    "drop_subscription": "subscription_subid_key (subid)",
    "note_present": "resource_jid (left)",
    "note_activity": "resource_jid (left)",
    "drop_resource": "resource_jid (left)",
    "remove_item": "item_pkey (seq)",
    "park_item": "item_pkey (seq)",
    "name_item": "item_pkey (seq)",
    "change_lock": "item_pkey (seq)",
    "change_lock_and_turn": "item_pkey (seq)",
    "change_item": "item_pkey (seq)",
    "change_payload": "item_pkey (seq)",
    "drop_receipts": "receipt_of_item (seq)",
    "add_receipt": "item_pkey (seq)",
    "change_finished": "finished_pkey (node_id id)",
    "drop_finished": "finished_pkey (node_id id)",
    "forget": "finished_pkey (node_id id)",
    "outdated": "finished_until (until)",
    "schedules": "schedule_pkey (name)",
    "all_schedules": "schedule_pkey (name)",
    "due_schedules": "schedule_due (due)",
    "change_schedule": "schedule_pkey (name)",
    "drop_schedule": "schedule_pkey (name)",
    "samples": "sample_pkey (node_id at)",
    "replace_staged": "staged_id (txn_id node id attempt_id)",
    "note_compared": "met_pkey (attempt_id place)",
    "drop_conflicts": "met_pkey (attempt_id place)",
}
"""By which index, and which of its columns, the statements of a batch find their rows: in every state."""
COUNTED = {
    "registrations": "registration_pkey (name json_array_elements_text)",
    "feedings": "feeding_pkey (mark json_array_elements_text)",
    "fed_messages": "fed_message_pkey (name json_array_elements_text)",
    "forwarded_bundles": "forwarded_pkey (mark json_array_elements_text)",
    "alerts": "alert_pkey (name json_array_elements_text)",
    "alert_watches": "alert_watch_pkey (name json_array_elements_text)",
    "secrets": "secret_pkey (name json_array_elements_text)",
    "versions": "txn_app_id_version_key (app_id version)",
    "staged": "staged_id (txn_id node id attempt_id)",
    "noted": "staged_id (txn_id node id)",
    "ready": "item_ready (node_id priority",
    "ready_ends": "item_ready (node_id priority",
    "group_lines": "item_line (node_id group_name)",
    "waiting_groups": "item_line (node_id group_name)",
    "item_ids": "item_node (node_id seq)",
    "oldest": "item_node (node_id seq)",
    "newest": "item_node (node_id seq)",
    "number_further_on": "item_node (node_id seq)",
    "dead": "item_dead (node_id seq)",
    "shown_dead": "item_death (node_id death)",
    "locks": "item_deadline (deadline seq)",
    "locks_from_last": "item_deadline (deadline seq)",
    "count_queued": "item_ready (node_id priority",
    "queued_end": "item_ready (node_id priority",
    "count_line": "item_grouped (node_id seq)",
    "subscribers_of": "subscription_state (node_id state left)",
    "several_of": "subscription_several (node_id state left)",
    "subscriber_roles": "subscription_of_node (node_id left)",
    "events": "event_pkey (seq)",
    "records_of_app": "txn_of_app (app_id id)",
    "records_of_owner": "txn_of_owner (owner id)",
    "page_nodes_with": "node_access (access_model name)",
    "nodes_named_with": "node_access (access_model name)",
    "nodes_of_account_named": "node_name_key (name)",
    "add_items_of_winners": "staged_pkey (attempt_id)",
    "winner_rows": "staged_pkey (attempt_id place)",
    "drop_samples": "sample_at (at)",
    "sweep_records": "txn_committed (committed)",
}
"""Of these only where the tables were not counted while they were empty: then another index seems as good."""
FULL_ONLY = {"shown": "item_node (node_id seq)"}


class Plan:
    """The steps of a plan that look at tables."""

    def __init__(self, plan):
        self.steps = [step for step in _steps(plan) if "Relation Name" in step]

    def finds(self):
        """Return the indexes that are used, with the columns by which."""
        for step in self.steps:
            columns = re.findall(
                r'(?:\.|\(|^|")([a-z_]+)"?(?:\(|\)* (?:=|<|>))', step.get("Index Cond", "")
            )
            names = dict.fromkeys(name for name in columns if not name.startswith("k_"))
            yield f"{step.get('Index Name', '')} ({' '.join(names)})"

    def walked(self):
        """Return the tables that are looked at from their beginning, by an index or without."""
        return {
            step["Relation Name"]
            for step in self.steps
            if step["Node Type"] == "Seq Scan"
            or (step["Node Type"].startswith("Index") and "Index Cond" not in step)
        }


def _steps(plan):
    yield plan
    for one in plan.get("Plans", ()):
        yield from _steps(one)


def plans(connection):
    found = {}
    for name, text in SQL.items():
        values = max(map(int, re.findall(r"\$(\d+)", text)), default=0)
        given = f"({', '.join(['NULL'] * values)})" if values else ""
        connection.execute(f"PREPARE looked_at AS {text}")
        (plan,) = connection.execute(
            f"EXPLAIN (FORMAT JSON) EXECUTE looked_at{given}", prepare=False
        ).fetchone()
        connection.execute("DEALLOCATE looked_at")
        found[name] = Plan(plan[0]["Plan"])
    return found


@pytest.fixture(params=["never counted", "full", "counted while empty"])
def state(request, running_postgres):
    """A database of its own in this state, and the plans there."""
    running_postgres.ask("CREATE DATABASE planned")
    running_postgres.ask("GRANT CREATE ON DATABASE planned TO queue")
    address = running_postgres.address.replace("/queues", "/planned")
    connection = connected(completed(address))
    try:
        prepare(connection)
        connection.execute("SET lock_timeout = 0")
        connection.execute("ALTER TABLE item SET (autovacuum_enabled = off)")
        if request.param == "full":
            connection.execute(FULL, prepare=False)
        if request.param == "counted while empty":
            connection.execute("ANALYZE")
        yield request.param, plans(connection)
    finally:
        connection.close()
        running_postgres.ask("DROP DATABASE planned WITH (FORCE)")


def test_every_statement_finds_its_rows_by_an_index(state):
    kind, found = state
    expected = PLANS | (COUNTED if kind != "counted while empty" else {})
    expected |= FULL_ONLY if kind == "full" else {}
    wrong = {
        name: list(found[name].finds())
        for name, index in expected.items()
        if not any(index in one for one in found[name].finds())
    }
    assert wrong == {}
    scanned = {
        name: plan.walked() - OF_A_COMMIT
        for name, plan in found.items()
        if name in PLANS or (kind != "counted while empty" and name not in WALKS)
    }
    assert {name: tables for name, tables in scanned.items() if tables} == {}


def test_what_may_walk_is_there(state):
    _, found = state
    assert WALKS.keys() | PLANS.keys() | COUNTED.keys() <= found.keys()
    assert not WALKS.keys() & (PLANS.keys() | COUNTED.keys())

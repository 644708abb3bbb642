"""Each chapter of the component has a test file of its name, or something else holds it, which is said here."""

from pathlib import Path

from harness.imports import reached

TESTS = Path(__file__).parent
PRODUCT = TESTS.parent / "component" / "pubqueue"

HELD = {
    "accounts/credentials": "accounts/test_principals",
    "accounts/local_key": "admin/test_connecting",
    "admin/http_client": "admin/test_over_http",
    "admin/methods": "admin/test_admin",
    "admin/over_xmpp": "e2e/test_both_carriers",
    "admin/session": "e2e/test_both_carriers",
    "cli/dev_reload": "cli/test_worker",
    "cli/definitions": "e2e/test_both_carriers",
    "cli/doctor": "e2e/test_operations",
    "cli/events": "e2e/test_operations",
    "cli/publish": "e2e/test_publish_command",
    "cli/session": "e2e/test_operations",
    "cli/top": "e2e/test_operations",
    "engine/changes": "engine/test_machine",
    "engine/context": "engine/test_quotas",
    "engine/cron_times": "engine/test_timetable",
    "engine/dispatch": "engine/test_groups",
    "engine/face": "engine/test_running_faces",
    "engine/facts/inspecting": "engine/test_overseeing",
    "engine/facts/keeping": "engine/test_kept_messages",
    "engine/facts/managing": "engine/test_crowd_reviews",
    "engine/facts/publishing": "engine/test_feeding_in_slices",
    "engine/facts/queue": "engine/test_machine",
    "engine/facts/reading": "engine/test_new_items",
    "engine/facts/transactions": "engine/transactions/test_commit",
    "engine/fan_out": "engine/test_crowd_news",
    "engine/listings": "stores/sqlite/test_store",
    "engine/observe": "engine/test_watching",
    "engine/outbox": "engine/test_boundaries",
    "engine/ports": "stores/sqlite/test_store",
    "engine/reader": "engine/test_stalled",
    "engine/rows": "stores/sqlite/test_store",
    "engine/sending": "engine/test_broker",
    "engine/table": "engine/test_request_sizes",
    "engine/tentative": "engine/test_together",
    "engine/working_set": "engine/test_remembered",
    "engine/writes": "engine/test_statements",
    "operations/searching": "operations/test_operations",
    "rules/damage": "engine/test_damage",
    "faces/checks": "test_error_facts",
    "faces/grpc/calls": "faces/grpc/test_both_bindings",
    "faces/grpc/face": "faces/grpc/test_contract",
    "faces/grpc/fields": "faces/grpc/test_v1",
    "faces/grpc/subscriptions": "faces/grpc/test_both_bindings",
    "faces/grpc/topics": "faces/grpc/test_both_bindings",
    "faces/push/client": "faces/rest/test_push",
    "faces/push/worker": "faces/rest/test_push",
    "faces/rest/hornetq/routes": "faces/rest/test_openapi",
    "faces/rest/profiles": "faces/rest/test_settings",
    "faces/rest/star/routes": "faces/rest/test_openapi",
    "faces/stomp/face": "faces/stomp/test_contract",
    "faces/table": "cli/test_service",
    "faces/xmpp/commands/operation_forms": "faces/xmpp/commands/test_table",
    "faces/xmpp/parse/nodes": "faces/xmpp/test_requests",
    "faces/xmpp/parse/reading": "scenarios/test_scenarios",
    "faces/xmpp/render/pages": "scenarios/test_scenarios",
    "model/changes": "engine/test_batch",
    "model/decision": "rules/test_publish",
    "model/notices": "engine/test_plain_nodes",
    "model/records": "stores/sqlite/test_store",
    "model/replies": "operations/test_operations",
    "model/schedules": "rules/test_schedules",
    "model/transactions": "rules/test_staging",
    "monitor/api/publishing": "admin/test_over_http",
    "monitor/asking": "monitor/page/test_site",
    "monitor/gauges": "monitor/test_server",
    "operations/clients": "operations/test_operations",
    "operations/dead": "operations/test_operations",
    "operations/items": "operations/test_operations",
    "operations/model": "operations/test_operations",
    "operations/nodes": "operations/test_operations",
    "operations/schedules": "scenarios/test_scenarios",
    "operations/service": "operations/test_operations",
    "operations/table": "monitor/api/test_service",
    "operations/waits": "e2e/test_both_carriers",
    "rules/audience": "engine/test_crowd_reviews",
    "rules/give_back": "rules/test_expire",
    "rules/messages": "engine/test_kept_messages",
    "rules/publication": "rules/test_publish",
    "stores/copying/postgres": "stores/copying/test_copy",
    "stores/copying/sqlite": "stores/copying/test_copy",
    "stores/postgres/read_only": "stores/postgres/test_connection",
    "stores/reading_errors": "stores/postgres/test_store",
    "stores/sql/columns": "stores/test_alike",
    "stores/sql/commits": "stores/of_commits",
    "stores/sql/item_pages": "stores/of_items",
    "stores/sql/kinds": "stores/of_kinds",
    "stores/sql/load": "stores/of_batches",
    "stores/sql/pages": "stores/of_nodes",
    "stores/sql/transaction": "stores/sqlite/test_store",
    "stores/sql/write": "stores/of_relational",
    "stores/sqlite/instances": "stores/of_instances",
    "stores/sqlite/read_only": "cli/test_service",
    "testing/engine": "testing/test_service",
    "testing/pytest_plugin": "testing/test_service",
    "testing/server": "testing/test_service",
    "version": "cli/test_cli",
    "wiring/checking": "cli/test_service",
    "wiring/faces": "faces/test_toy_face",
    "wiring/serving": "config/test_reloading",
}
"""What holds a chapter that has no test of its own: a contract, scenarios, commands as they are typed, or a test of what uses it."""


def chapters():
    """Return the chapters of the component by name, each with its file."""
    paths = (path for path in PRODUCT.rglob("*.py") if not path.name.startswith("__"))
    return {path.relative_to(PRODUCT).with_suffix("").as_posix(): path for path in sorted(paths)}


def namesake(chapter):
    folder, _, name = chapter.rpartition("/")
    return TESTS / folder / f"test_{name}.py"


def test_each_chapter_has_a_namesake_or_is_held():
    without = {name for name in chapters() if not namesake(name).exists()}
    assert sorted(without - HELD.keys()) == []


def test_no_row_is_of_a_chapter_that_is_gone_or_has_a_namesake():
    assert [name for name in HELD if name not in chapters() or namesake(name).exists()] == []


def test_what_holds_a_chapter_is_there_and_reaches_it():
    """Contracts of stores are run by both; a command or a scenario starts the service, which imports all of it."""
    wrong = {}
    for name, holder in HELD.items():
        path = TESTS / f"{holder}.py"
        bound = path
        if holder.startswith("stores/of_"):
            bound = TESTS / "stores" / "sqlite" / "test_store.py"
        if not path.exists() or chapters()[name] not in reached(bound):
            wrong[name] = holder
    assert wrong == {}

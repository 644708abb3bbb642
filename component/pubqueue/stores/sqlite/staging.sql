-- What waits for commits, as it is written.

-- add_app: a writer that was not there
INSERT INTO txn_app (name, owner, version, committed, used) VALUES (?, ?, ?, ?, ?);

-- change_app: it was heard of, or is farther than before; its owner never changes
UPDATE txn_app SET version = ?, committed = ?, used = ? WHERE name = ? AND owner = ? AND version IS ?;

-- drop_app: a writer with all its versions
DELETE FROM txn_app WHERE name = ? AND owner = ? AND version IS ?;

-- add_version: an open version that was not there
INSERT INTO txn (app_id, owner, version, immediate, began, until, items, bytes)
SELECT id, ?, ?, ?, ?, ?, ?, ? FROM txn_app WHERE name = ?;

-- change_version: what an open version has more, and how long it may wait
UPDATE txn SET items = items + ?, bytes = bytes + ?, until = ?
WHERE app_id = (SELECT id FROM txn_app WHERE name = ?) AND version = ? AND committed IS NULL;

-- leave_version: nobody wants the attempts at an open version any more
UPDATE attempt SET txn_id = NULL WHERE txn_id = (
    SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = ? AND t.version = ? AND t.committed IS NULL
);

-- drop_version: the open version is no more
DELETE FROM txn WHERE app_id = (SELECT id FROM txn_app WHERE name = ?) AND version = ? AND committed IS NULL;

-- add_attempt: an attempt that was not there
INSERT INTO attempt (txn_id, part, number, items, bytes, known, grouped)
SELECT t.id, ?, ?, ?, ?, ?, ? FROM txn_app p JOIN txn t ON t.app_id = p.id
WHERE p.name = ? AND t.version = ? AND t.committed IS NULL;

-- change_attempt: what an attempt has more
UPDATE attempt SET items = items + ?, bytes = bytes + ?, known = known + ?, grouped = grouped + ? WHERE txn_id = (
    SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = ? AND t.version = ? AND t.committed IS NULL
) AND part = ? AND number = ?;

-- leave_attempt: nobody wants an attempt any more
UPDATE attempt SET txn_id = NULL WHERE txn_id = (
    SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = ? AND t.version = ? AND t.committed IS NULL
) AND part = ? AND number = ?;

-- wait: an account of which nothing waited
INSERT INTO staged_usage (account, items, bytes) VALUES (?, ?, ?);

-- wait_more: what an account has more
UPDATE staged_usage SET items = items + ?, bytes = bytes + ? WHERE account = ?;

-- wait_no_more: an account of which nothing waits
DELETE FROM staged_usage WHERE account = ?;

-- place: an attempt, its version, and the number of its next row
SELECT a.id, t.id, (SELECT coalesce(max(row), -1) + 1 FROM staged WHERE attempt_id = a.id) FROM txn_app p
JOIN txn t ON t.app_id = p.id JOIN attempt a ON a.txn_id = t.id
WHERE p.name = ? AND t.version = ? AND t.committed IS NULL AND a.part = ? AND a.number = ?;

-- add_staged: an item that waits
INSERT INTO staged (state, priority, pause, life, known, size, headers, group_name, payload, txn_id, node, id, attempt_id, row)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- restage: it comes again, and keeps its place
UPDATE staged SET state = ?, priority = ?, pause = ?, life = ?, known = ?, size = ?, headers = ?, group_name = ?, payload = ?
WHERE txn_id = ? AND node = ? AND id = ? AND attempt_id = ?;

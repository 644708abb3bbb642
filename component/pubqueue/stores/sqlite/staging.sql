-- Writes of staged rows.

-- change_app: the last use or version of an app; its owner never changes
UPDATE txn_app SET owner = ?, version = ?, committed = ?, used = ?, sum = ? WHERE name = ? AND owner = ? AND version IS ?;

-- drop_app: delete a writer and all its versions
DELETE FROM txn_app WHERE name = ? AND owner = ? AND version IS ?;

-- add_version: a new open version
INSERT INTO txn (owner, version, immediate, began, until, items, bytes, sum, app_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- place: an attempt, its version, and the number of its next row
SELECT a.id, t.id, (SELECT coalesce(max(row), -1) + 1 FROM staged WHERE attempt_id = a.id) FROM txn_app p
JOIN txn t ON t.app_id = p.id JOIN attempt a ON a.txn_id = t.id
WHERE p.name = ? AND t.version = ? AND t.committed IS NULL AND a.part = ? AND a.number = ?;

-- add_staged: staged items
INSERT INTO staged (state, priority, pause, life, known, size, headers, group_name, sum, payload, txn_id, node, id, attempt_id, row)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- replace_staged: replace staged items, which keep their places
UPDATE staged SET state = ?, priority = ?, pause = ?, life = ?, known = ?, size = ?, headers = ?, group_name = ?, sum = ?, payload = ?
WHERE txn_id = ? AND node = ? AND id = ? AND attempt_id = ?;

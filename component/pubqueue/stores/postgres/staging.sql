-- What waits for commits, as it is written.

-- add_app: a writer that was not there
INSERT INTO txn_app (name, owner, version, committed, used) VALUES ($1, $2, $3, $4, $5);

-- change_app: it was heard of, or is farther than before; its owner never changes
UPDATE txn_app SET version = $1, committed = $2, used = $3 WHERE name = $4 AND owner = $5 AND version IS NOT DISTINCT FROM $6;

-- drop_app: a writer with all its versions
DELETE FROM txn_app WHERE name = $1 AND owner = $2 AND version IS NOT DISTINCT FROM $3;

-- add_version: an open version that was not there
INSERT INTO txn (app_id, owner, version, immediate, began, until, items, bytes)
SELECT id, $1::text, $2::bigint, $3::bigint <> 0, $4::bigint, $5::bigint, $6::bigint, $7::bigint
FROM txn_app WHERE name = $8;

-- change_version: what an open version has more, and how long it may wait
UPDATE txn SET items = items + $1, bytes = bytes + $2, until = $3
WHERE app_id = (SELECT id FROM txn_app WHERE name = $4) AND version = $5 AND committed IS NULL;

-- leave_version: nobody wants the attempts at an open version any more
UPDATE attempt SET txn_id = NULL WHERE txn_id = (
    SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL
);

-- drop_version: the open version is no more
DELETE FROM txn WHERE app_id = (SELECT id FROM txn_app WHERE name = $1) AND version = $2 AND committed IS NULL;

-- add_attempt: an attempt that was not there
INSERT INTO attempt (txn_id, part, number, items, bytes, known, grouped)
SELECT t.id, $1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint FROM txn_app p JOIN txn t ON t.app_id = p.id
WHERE p.name = $7 AND t.version = $8 AND t.committed IS NULL;

-- change_attempt: what an attempt has more
UPDATE attempt SET items = items + $1, bytes = bytes + $2, known = known + $3, grouped = grouped + $4 WHERE txn_id = (
    SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = $5 AND t.version = $6 AND t.committed IS NULL
) AND part = $7 AND number = $8;

-- leave_attempt: nobody wants an attempt any more
UPDATE attempt SET txn_id = NULL WHERE txn_id = (
    SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL
) AND part = $3 AND number = $4;

-- wait: an account of which nothing waited
INSERT INTO staged_usage (account, items, bytes) VALUES ($1, $2, $3);

-- wait_more: what an account has more
UPDATE staged_usage SET items = items + $1, bytes = bytes + $2 WHERE account = $3;

-- wait_no_more: an account of which nothing waits
DELETE FROM staged_usage WHERE account = $1;

-- place: an attempt, its version, and the number of its next row
SELECT a.id, t.id, (SELECT coalesce(max(place), -1) + 1 FROM staged WHERE attempt_id = a.id) FROM txn_app p
JOIN txn t ON t.app_id = p.id JOIN attempt a ON a.txn_id = t.id
WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL AND a.part = $3 AND a.number = $4;

-- add_staged: items that wait
INSERT INTO staged (state, priority, pause, life, known, size, headers, group_name, payload, txn_id, node, id, attempt_id, place)
SELECT v.state, v.priority, v.pause, v.life, v.known <> 0, v.size, v.headers, v.group_name, v.payload, v.txn_id, v.node, v.id,
    v.attempt_id, v.place
FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bytea[],
    $10::bigint[], $11::text[], $12::text[], $13::bigint[], $14::bigint[]
) v(state, priority, pause, life, known, size, headers, group_name, payload, txn_id, node, id, attempt_id, place);

-- restage: they come again, and keep their places
UPDATE staged s SET state = v.state, priority = v.priority, pause = v.pause, life = v.life, known = v.known <> 0,
    size = v.size, headers = v.headers, group_name = v.group_name, payload = v.payload
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bytea[],
    $10::bigint[], $11::text[], $12::text[], $13::bigint[]
) v(state, priority, pause, life, known, size, headers, group_name, payload, txn_id, node, id, attempt_id)
    CROSS JOIN LATERAL (SELECT ctid FROM staged WHERE txn_id = v.txn_id AND node = v.node AND id = v.id AND attempt_id = v.attempt_id OFFSET 0) x
) v WHERE s.ctid = v.at_row;

-- Writes of staged rows.

-- change_app: the last use or version of an app; its owner never changes
UPDATE txn_app SET owner = $1, version = $2, committed = $3, used = $4, sum = $5
WHERE name = $6 AND owner = $7 AND version IS NOT DISTINCT FROM $8;

-- drop_app: delete a writer and all its versions
DELETE FROM txn_app WHERE name = $1 AND owner = $2 AND version IS NOT DISTINCT FROM $3;

-- add_version: a new open version
INSERT INTO txn (owner, version, immediate, began, until, items, bytes, sum, app_id)
VALUES ($1, $2, $3::bigint <> 0, $4, $5, $6, $7, $8, $9);

-- place: an attempt, its version, and the number of its next row
SELECT a.id, t.id, (SELECT coalesce(max(place), -1) + 1 FROM staged WHERE attempt_id = a.id) FROM txn_app p
JOIN txn t ON t.app_id = p.id JOIN attempt a ON a.txn_id = t.id
WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL AND a.part = $3 AND a.number = $4;

-- add_staged: staged items
INSERT INTO staged (state, priority, pause, life, known, size, headers, group_name, sum, payload, txn_id, node, id, attempt_id, place)
SELECT v.state, v.priority, v.pause, v.life, v.known <> 0, v.size, v.headers, v.group_name, v.sum, v.payload, v.txn_id, v.node, v.id,
    v.attempt_id, v.place
FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bigint[], $10::bytea[],
    $11::bigint[], $12::text[], $13::text[], $14::bigint[], $15::bigint[]
) v(state, priority, pause, life, known, size, headers, group_name, sum, payload, txn_id, node, id, attempt_id, place);

-- replace_staged: replace staged items, which keep their places
UPDATE staged s SET state = v.state, priority = v.priority, pause = v.pause, life = v.life, known = v.known <> 0,
    size = v.size, headers = v.headers, group_name = v.group_name, sum = v.sum, payload = v.payload
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bigint[], $10::bytea[],
    $11::bigint[], $12::text[], $13::text[], $14::bigint[]
) v(state, priority, pause, life, known, size, headers, group_name, sum, payload, txn_id, node, id, attempt_id)
    CROSS JOIN LATERAL (SELECT ctid FROM staged WHERE txn_id = v.txn_id AND node = v.node AND id = v.id AND attempt_id = v.attempt_id OFFSET 0) x
) v WHERE s.ctid = v.at_row;

-- Staged rows: the statements that are the same in both dialects. See `sql/statements.py`.

-- add_app: a new writer
INSERT INTO txn_app (owner, version, committed, used, sum, name) VALUES ($1, $2, $3, $4, $5, $6);

-- app_id: the number of an app
SELECT id FROM txn_app WHERE name = $1;

-- change_version: the new totals of an open version, and its expiry
UPDATE txn SET items = items + $1, bytes = bytes + $2, until = $3, sum = $4
WHERE app_id = $5 AND version = $6 AND committed IS NULL;

-- drop_attempts_at_version: drop the attempts at an open version
UPDATE attempt SET txn_id = NULL WHERE txn_id = (
    SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL
);

-- drop_version: end an open version
DELETE FROM txn WHERE app_id = (SELECT id FROM txn_app WHERE name = $1) AND version = $2 AND committed IS NULL;

-- add_attempt: a new attempt
INSERT INTO attempt (txn_id, part, number, items, bytes, known, grouped)
SELECT t.id, $1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint FROM txn_app p JOIN txn t ON t.app_id = p.id
WHERE p.name = $7 AND t.version = $8 AND t.committed IS NULL;

-- change_attempt: the new totals of an attempt
UPDATE attempt SET items = items + $1, bytes = bytes + $2, known = known + $3, grouped = grouped + $4 WHERE txn_id = (
    SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = $5 AND t.version = $6 AND t.committed IS NULL
) AND part = $7 AND number = $8;

-- drop_attempt: drop an attempt
UPDATE attempt SET txn_id = NULL WHERE txn_id = (
    SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL
) AND part = $3 AND number = $4;

-- add_staged_totals: the first staged items of an account
INSERT INTO staged_usage (account, items, bytes) VALUES ($1, $2, $3);

-- change_staged_totals: the new totals of an account
UPDATE staged_usage SET items = items + $1, bytes = bytes + $2 WHERE account = $3;

-- drop_staged_totals: delete the totals of an account without staged items
DELETE FROM staged_usage WHERE account = $1;

-- What waits for commits, as far as both dialects say the same. See `relational/statements.py`.

-- add_app: a writer that was not there
INSERT INTO txn_app (owner, version, committed, used, name) VALUES ($1, $2, $3, $4, $5);

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

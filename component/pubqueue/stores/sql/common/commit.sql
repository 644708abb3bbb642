-- Commits, aborts and sweeps: the statements that are the same in both dialects. See `sql/statements.py`.

-- forget_winners: an empty table for another commit
DELETE FROM winner;

-- empty_conflicts: an empty table for another commit
DELETE FROM met;

-- conflict_classes: the conflicts of a node's winners, in classes
SELECT state, same, count(*), min(id) FROM met WHERE node = $1 AND state IS NOT NULL GROUP BY state, same LIMIT $2;

-- overwrite: items of a plain node that are overwritten
DELETE FROM item WHERE seq IN (SELECT item_seq FROM met WHERE node = $1);

-- drop_overwritten_conflicts: drop the conflicts of overwritten items, which then count as new
DELETE FROM met WHERE node = $1 AND state IS NOT NULL;

-- find_app: an app, if it exists; its owner never changes
INSERT INTO txn_app (name, owner, used, sum) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET used = excluded.used WHERE txn_app.owner = excluded.owner RETURNING id;

-- waiting_until: the staged totals of an app's versions up to this one, and when this one began
SELECT coalesce(sum(items), 0)::bigint, coalesce(sum(bytes), 0)::bigint, max(began) FILTER (WHERE version = $2) FROM txn
WHERE app_id = $1 AND version <= $2 AND committed IS NULL;

-- lower_account_totals: lower the totals of an account
UPDATE staged_usage SET items = items - $1, bytes = bytes - $2 WHERE account IN ($3, '');

-- drop_until: drop the other attempts at these versions
UPDATE attempt SET txn_id = NULL
WHERE txn_id IN (SELECT id FROM txn WHERE app_id = $1 AND version <= $2 AND committed IS NULL) AND NOT committed;

-- close_versions: close these versions
DELETE FROM txn WHERE app_id = $1 AND version <= $2 AND committed IS NULL;

-- add_record: the record of a committed version; a new row, so that ids rise in the order of commits
INSERT INTO txn (app_id, owner, version, immediate, began, until, committed, items, bytes, skipped, dead_lettered, seconds,
    on_taken, dead_letter_node, sum)
VALUES ($1, $2, $3, false, $4, $5::bigint, $5::bigint, $6, $7, $8, $9, $10, $11, $12, $13);

-- attach_winners: attach the winners to the record
UPDATE attempt SET txn_id = (SELECT id FROM txn WHERE app_id = $1 AND version = $2) WHERE txn_id = $3 AND committed;

-- end_moved: drop attempts without rows to move
UPDATE attempt SET txn_id = NULL, committed = false
WHERE committed AND txn_id = (
    SELECT t.id FROM txn_app p %(join)s txn t ON t.app_id = p.id AND t.version = $2 WHERE p.name = $1
) AND NOT EXISTS (SELECT 1 FROM staged WHERE attempt_id = attempt.id);

-- change_last_version: the last committed version of the app
UPDATE txn_app SET version = $1, committed = $2, used = $3, sum = $4 WHERE id = $5 AND (version IS NULL OR version < $6);

-- waiting_version: the staged totals of one version
SELECT t.id, t.items, t.bytes, t.app_id, t.version, t.owner, t.immediate, t.began, t.until, t.committed, t.on_taken, t.dead_letter_node, t.sum, p.owner
FROM txn t JOIN txn_app p ON p.id = t.app_id WHERE p.name = $1 AND t.version = $2;

-- find_apps: apps by the name, and by the half of the checksum that is about it
SELECT id, name, owner, version, committed, sum FROM txn_app WHERE name = $1
UNION SELECT id, name, owner, version, committed, sum FROM txn_app WHERE id IN (SELECT id FROM txn_app WHERE sum >> 32 = $2 LIMIT 16);

-- restore_app: write the mark of an app again
UPDATE txn_app SET name = $1, owner = $2, version = $3, committed = $4, used = $5, sum = $6 WHERE id = $7;

-- restore_record: write the row of a committed version again
UPDATE txn SET owner = $1, immediate = false, began = $2::bigint, until = $2::bigint, committed = $2::bigint, on_taken = 'fail',
    dead_letter_node = NULL, sum = $3 WHERE app_id = $4 AND version = $5;

-- drop_attempts: drop the attempts at this version
UPDATE attempt SET txn_id = NULL WHERE txn_id = $1;

-- lower_version_totals: lower the totals of a version
UPDATE txn SET items = items - $1, bytes = bytes - $2 WHERE id = $3;

-- drop_open: close a version without staged items
DELETE FROM txn WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM attempt WHERE txn_id = $1);

-- sweep_attempts: attempts without any rows left
DELETE FROM attempt WHERE txn_id IS NULL AND NOT EXISTS (SELECT 1 FROM staged WHERE attempt_id = attempt.id);

-- orphans: a slice of the items whose contents belong to no node, and of their bytes; headers of those that have not died and wait for a reply
SELECT seq, id, publisher, headers, acquired, failed, joins, dead FROM (
    SELECT seq, id, publisher, headers, acquired, failed, joins, dead, sum(size) OVER (ORDER BY seq) - size AS before FROM (
        SELECT i.seq, i.id, i.publisher, CASE WHEN i.death IS NULL AND i.headers LIKE '%"reply-to"%' THEN i.headers END AS headers,
            i.acquired, i.failed, i.joins, CASE WHEN i.death IS NULL THEN 0 ELSE 1 END AS dead, i.size
        FROM contents c %(join)s item i ON i.node_id = c.id WHERE c.node_id IS NULL LIMIT $1
    ) AS found
) AS summed WHERE before < $2;

-- sweep_done: a slice of the done items of a queue, and of their bytes
DELETE FROM done_item WHERE seq IN (
    SELECT seq FROM (
        SELECT seq, sum(size) OVER (ORDER BY seq) - size AS before FROM (
            SELECT d.seq, d.size FROM contents c %(join)s done_item d ON d.node_id = c.id WHERE c.node_id IS NULL LIMIT $1
        ) AS found
    ) AS summed WHERE before < $2
);

-- sweep_places: a slice of the places of items whose contents belong to no node
DELETE FROM overwritten WHERE seq IN (
    SELECT o.seq FROM contents c %(join)s overwritten o ON o.contents_id = c.id WHERE c.node_id IS NULL LIMIT $1
);

-- sweep_contents: contents without any items left
DELETE FROM contents WHERE id IN (
    SELECT c.id FROM contents c WHERE c.node_id IS NULL AND NOT EXISTS (SELECT 1 FROM item WHERE node_id = c.id)
        AND NOT EXISTS (SELECT 1 FROM done_item WHERE node_id = c.id)
        AND NOT EXISTS (SELECT 1 FROM overwritten WHERE contents_id = c.id) LIMIT $1
);

-- sweep_usage: accounts without staged items
DELETE FROM staged_usage WHERE items = 0 AND bytes = 0;

-- sweep_records: records that are too old, by both of their times, and have no winners to move
DELETE FROM txn WHERE id IN (
    SELECT t.id FROM txn t WHERE t.committed IS NOT NULL AND t.committed < $1 AND t.until < $1
        AND NOT EXISTS (SELECT 1 FROM attempt WHERE txn_id = t.id AND committed) LIMIT $2
);

-- old_apps: apps without recent use, by both of their times; those with open versions, or records, stay
SELECT id, name, owner, version, committed, sum FROM txn_app
WHERE used < $1 AND coalesce(committed, used) < $1 AND NOT EXISTS (SELECT 1 FROM txn t WHERE t.app_id = txn_app.id) LIMIT $2;

-- sweep_app: an app without recent use
DELETE FROM txn_app WHERE id = $1;

-- put_off_app: look at an app again later
UPDATE txn_app SET used = $1 WHERE id = $2;

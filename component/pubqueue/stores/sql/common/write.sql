-- Writes of rows: the statements that are the same in both dialects. See `sql/statements.py`.

-- number: reserve numbers of a sequence; it begins with 1
INSERT INTO sequence AS s (name, next) VALUES ($2, 1 + $1::bigint)
ON CONFLICT (name) DO UPDATE SET next = s.next + $1::bigint RETURNING next - $1::bigint;

-- add_node: a new node
INSERT INTO node (name, config, creator, created, sum, items, subscriptions, spent, bytes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- config: the settings of a node
SELECT config FROM node WHERE id = $1;

-- configure: change the settings of a node
UPDATE node SET config = $1, creator = $2, sum = $3 WHERE id = $4;

-- drop_node: a node; its contents then belong to no node
DELETE FROM node WHERE id = $1;

-- drop_subscriptions: delete the subscriptions to a deleted node, up to a number
DELETE FROM subscription WHERE id IN (SELECT id FROM subscription WHERE node_id = $1 LIMIT $2);

-- drop_affiliations: delete the affiliations with a deleted node, up to a number
DELETE FROM affiliation WHERE (node_id, jid) IN (SELECT node_id, jid FROM affiliation WHERE node_id = $1 LIMIT $2);

-- forget_node: a deleted node without any rows left
DELETE FROM former_node WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM subscription WHERE node_id = $1)
    AND NOT EXISTS (SELECT 1 FROM affiliation WHERE node_id = $1);

-- begin_review: a node's subscribers have to be reviewed
INSERT INTO review (node_id) VALUES ($1) ON CONFLICT DO NOTHING;

-- end_review: the review of a node is done
DELETE FROM review WHERE node_id = $1;

-- begin_trim: a node has to be trimmed
INSERT INTO trim (node_id) VALUES ($1) ON CONFLICT DO NOTHING;

-- end_trim: the trim of a node is done
DELETE FROM trim WHERE node_id = $1;

-- move_node: the new address for requests to a deleted node
INSERT INTO moved_node (name, uri, at) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET uri = excluded.uri, at = excluded.at;

-- settle_node: delete the new address, because a node of this name exists again
DELETE FROM moved_node WHERE name = $1;

-- add_affiliation: a new affiliation of an account with a node
INSERT INTO affiliation (affiliation, sum, node_id, jid) VALUES ($1, $2, $3, $4);

-- change_affiliation: change an affiliation; one that is damaged is given as an empty word
UPDATE affiliation SET affiliation = $1, sum = $2 WHERE node_id = $3 AND jid = $4 AND $5 IN (affiliation, '');

-- drop_affiliation: delete an affiliation
DELETE FROM affiliation WHERE node_id = $1 AND jid = $2 AND $3 IN (affiliation, '');

-- add_contents: the first contents of a node, which have the node's number
INSERT INTO contents (id, node_id) SELECT id, id FROM node WHERE name = $1;

-- detach_contents: detach the contents from a node
UPDATE contents SET node_id = NULL WHERE node_id = $1;

-- reset_item_counts: set the counts of a purged node to zero
UPDATE node SET items = 0, bytes = 0, done = 0, done_bytes = 0 WHERE id = $1;

-- reset_lock_counts: set the counts of locks of its subscriptions to zero
UPDATE subscription SET in_flight = 0 WHERE node_id = $1 AND in_flight > 0;

-- outdated: outdated ids of finished work, the longest overdue first
SELECT node_id, id FROM finished WHERE until <= $1 ORDER BY until LIMIT $2;

-- add_registration: a new registration of pushes
INSERT INTO registration (account, node, queueing, words, disabled, failures, error, position, following, runner, until, revision, sum, name)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- change_registration: a registration of the expected revision
UPDATE registration SET account = $1, node = $2, queueing = $3, words = $4, disabled = $5, failures = $6, error = $7, position = $8, following = $9, runner = $10, until = $11, revision = $12,
sum = $13 WHERE name = $14 AND revision = $15;

-- drop_registration: a registration of the expected revision ends
DELETE FROM registration WHERE name = $1 AND revision = $2;

-- add_seek: a seek of a queue begins
INSERT INTO seek (since, at, through, node_id) VALUES ($1, $2, $3, $4);

-- change_seek: replace a seek with another
UPDATE seek SET since = $1, at = $2, through = $3 WHERE node_id = $4 AND at = $5;

-- drop_seek: delete a completed seek
DELETE FROM seek WHERE node_id = $1 AND at = $2;

-- add_feeding: a publish that will be copied to queues in slices
INSERT INTO feeding (place, what, mark) VALUES ($1, $2, $3);

-- change_feeding: the progress of such a publish
UPDATE feeding SET place = $1, what = $2 WHERE mark = $3 AND place = $4;

-- drop_feeding: delete such a publish, whose copies are complete
DELETE FROM feeding WHERE mark = $1 AND place = $2;

-- add_fed_message: a message of such a publish
INSERT INTO fed_message (draft, name) VALUES ($1, $2);

-- change_fed_message: replace such a message
UPDATE fed_message SET draft = $1 WHERE name = $2;

-- drop_fed_message: delete such a message, whose copies are complete
DELETE FROM fed_message WHERE name = $1;

-- add_forwarded: store notices for another instance
INSERT INTO forwarded (notices, mark) VALUES ($1, $2);

-- change_forwarded: replace the stored notices for another instance
UPDATE forwarded SET notices = $1 WHERE mark = $2;

-- drop_forwarded: delete sent notices for another instance
DELETE FROM forwarded WHERE mark = $1;

-- add_alert: a new alert
INSERT INTO alert (since, detail, over_at, reported, name) VALUES ($1, $2, $3, $4, $5);

-- change_alert: an alert that was reported, is over, or begins again
UPDATE alert SET since = $1, detail = $2, over_at = $3, reported = $4 WHERE name = $5 AND since = $6 AND over_at = $7 AND reported = $8;

-- drop_alert: an alert that is over, which was reported
DELETE FROM alert WHERE name = $1 AND since = $2 AND over_at = $3 AND reported = $4;

-- add_alert_watch: the first instance that watches for alerts
INSERT INTO alert_watch (runner, until, name) VALUES ($1, $2, $3);

-- change_alert_watch: an instance watches for alerts, or goes on to
UPDATE alert_watch SET runner = $1, until = $2 WHERE name = $3 AND runner = $4 AND until = $5;

-- drop_alert_watch: no instance watches for alerts
DELETE FROM alert_watch WHERE name = $1 AND runner = $2 AND until = $3;

-- add_secret: a new secret
INSERT INTO secret (value, name) VALUES ($1, $2);

-- change_secret: a changed secret
UPDATE secret SET value = $1 WHERE name = $2 AND value = $3;

-- drop_secret: a removed secret
DELETE FROM secret WHERE name = $1 AND value = $2;

-- note_sum_of_node: the checksum of a row that has none; it is found by its key, not by the index of rows that have none
UPDATE node SET sum = $1 WHERE id = $2 AND $3 = '' AND sum + 0 IS NULL;

-- note_sum_of_affiliation: the checksum of a row that has none
UPDATE affiliation SET sum = $1 WHERE node_id = $2 AND jid = $3 AND sum + 0 IS NULL;

-- note_sum_of_subscription: the checksum of a row that has none
UPDATE subscription SET sum = $1 WHERE id = $2 AND $3 = '' AND sum + 0 IS NULL;

-- note_sum_of_schedule: the checksum of a row that has none
UPDATE schedule SET sum = $1 WHERE name = $3 AND $2 = 0 AND sum + 0 IS NULL;

-- note_sum_of_registration: the checksum of a row that has none
UPDATE registration SET sum = $1 WHERE name = $3 AND $2 = 0 AND sum + 0 IS NULL;

-- note_sum_of_txn_app: the checksum of a row that has none
UPDATE txn_app SET sum = $1 WHERE id = $2 AND $3 = '' AND sum + 0 IS NULL;

-- note_sum_of_txn: the checksum of a row that has none
UPDATE txn SET sum = $1 WHERE id = $2 AND $3 = '' AND sum + 0 IS NULL;

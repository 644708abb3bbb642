-- Writes of rows, each guarded by the state before: a statement that finds another number of rows than
-- expected rolls back the batch. Nodes are passed as their ids.

-- count_node: apply the changes of a batch to the counts of nodes
UPDATE node SET items = items + ?, bytes = bytes + ?, subscriptions = subscriptions + ?, done = done + ?, done_bytes = done_bytes + ?
WHERE id = ?;

-- spend_rate: the times until which nodes have used up their rates
UPDATE node SET spent = ? WHERE id = ? AND spent = ?;

-- keep_former: subscribers of a node to be deleted, if they need a notice
INSERT INTO former_node (id, name, telling) SELECT id, name, ?2 FROM node WHERE id = ?1;

-- forget_moved: delete outdated new addresses, and the oldest beyond the limit
DELETE FROM moved_node WHERE at < ? OR name IN (SELECT name FROM moved_node ORDER BY at DESC, name DESC LIMIT -1 OFFSET ?);

-- end_subscriptions: subscriptions of these JIDs to a node
DELETE FROM subscription WHERE node_id = ? AND jid IN (SELECT value FROM json_each(?));

-- drop_former: former subscribers of a deleted node that have been notified, up to a JID
DELETE FROM subscription WHERE jid <= ?2 AND node_id = (
    SELECT min(id) FROM former_node WHERE name = ?1 AND telling = 1
);

-- former_notified: no former subscriber of a deleted node needs a notice any more
UPDATE former_node SET telling = 0 WHERE id = (SELECT min(id) FROM former_node WHERE name = ? AND telling = 1);

-- add_subscription: a subscription that was not there
INSERT INTO subscription
    (node_id, jid, account, subid, queue_requests, in_flight, last_served, available, unanswered, state, deliver, expire, remind,
     temporary, several, lock_timeout, qos, sum, quiet)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- change_subscription: windows, availability and counts of subscriptions
UPDATE subscription SET queue_requests = ?, in_flight = in_flight + ?, last_served = max(last_served, ?),
    available = ?, unanswered = ?
WHERE subid = ?;

-- change_terms: states and options of subscriptions
UPDATE subscription SET state = ?, deliver = ?, expire = ?, remind = ?, temporary = ?, several = ?, lock_timeout = ?,
    qos = ?, sum = ?, quiet = ?, subid = ?
WHERE subid = ?;

-- drop_subscription: delete subscriptions; their locks stay
DELETE FROM subscription WHERE subid = ?;

-- add_resource: full JIDs become known
INSERT OR IGNORE INTO resource (jid, account) VALUES (?, ?);

-- note_present: full JIDs have sent available presence
UPDATE resource SET present = 1 WHERE jid = ?;

-- note_activity: full JIDs have shown activity
UPDATE resource SET since = max(since, ?), seen = max(seen, ?) WHERE jid = ?;

-- note_able: capabilities of the clients of full JIDs
UPDATE resource SET qos = ? WHERE jid = ?;

-- drop_resource: full JIDs have left
DELETE FROM resource WHERE jid = ?;

-- remove_item: delete items
DELETE FROM item WHERE seq = ? AND node_id = ? AND state = ? AND token = ?;

-- park_item: give items temporary ids, which clients cannot use, until other items have released theirs
UPDATE item SET id = char(0) || seq WHERE seq = ?;

-- name_item: give such items their own ids
UPDATE item SET id = ? WHERE seq = ?;

-- change_lock: lock or unlock items, which keep their places; only the columns that this changes, because each costs time
UPDATE item SET state = ?, due = ?, acquired = ?, failed = ?, released = ?, holder = ?, deadline = ?,
    token = max(token, ?), avoid = ?, aside = ?, taken = ?
WHERE seq = ? AND node_id = ? AND state = ? AND token = ?;

-- change_lock_and_turn: the same for items that got a turn, usually without other changes
UPDATE item SET state = ?, due = ?, acquired = ?, failed = ?, released = ?, holder = ?, deadline = ?,
    token = max(token, ?), avoid = ?, aside = ?, taken = ?, turn = ?
WHERE seq = ? AND node_id = ? AND state = ? AND token = ?;

-- change_item: all columns of items that may change
UPDATE item SET state = ?, due = ?, acquired = ?, failed = ?, released = ?, holder = ?, deadline = ?,
    token = max(token, ?), avoid = ?, aside = ?, taken = ?,
    node_id = ?, publisher = ?, published = ?, priority = ?, expires = ?, headers = ?,
    death = ?, dead_at = ?, dead_reason = ?, dead_from = ?, last_holder = ?, txn_app = ?, txn_version = ?,
    group_name = ?, turn = ?, failure = ?, size = ?, sum = ?
WHERE seq = ? AND node_id = ? AND state = ? AND token = ?;

-- change_wait: what items wait for, and what has come for them
UPDATE item SET wait = ? WHERE seq = ?;

-- change_joins: the joins that new items count for
UPDATE item SET joins = ? WHERE seq = ?;

-- change_payload: replace payloads
UPDATE item SET payload = ? WHERE seq = ?;

-- add_large: room for large payloads of items that are written, in place of earlier ones; they are written in pieces
INSERT INTO large_payload (seq, payload) SELECT ?1, zeroblob(?2)
WHERE EXISTS (SELECT 1 FROM item WHERE seq = ?1 AND length(payload) = 0)
    OR EXISTS (SELECT 1 FROM done_item WHERE seq = ?1 AND length(payload) = 0)
ON CONFLICT (seq) DO UPDATE SET payload = excluded.payload;

-- add_item: new items of the common kind, whether they wait or are locked already
INSERT INTO item
    (seq, node_id, id, state, publisher, published, priority, acquired, holder, deadline, token, taken, size, sum, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- add_waiting_item: a new item of the common kind that was never locked; passing NULLs takes time too
INSERT INTO item (seq, node_id, id, state, publisher, published, priority, size, sum, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- add_any_item: a new item with all its columns
INSERT INTO item (
    state, due, acquired, failed, released, holder, deadline, token, avoid, aside, taken,
    node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, size, sum, seq, id,
    payload
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- note_sum: the checksums of items that have none
UPDATE item SET sum = ? WHERE seq = ? AND sum IS NULL;

-- note_sum_of_done: the same of done items
UPDATE done_item SET sum = ? WHERE seq = ? AND sum IS NULL;

-- keep_item: keep done items with their payloads, and delete them from their queues
INSERT INTO done_item
    (seq, node_id, id, publisher, published, priority, token, done_at, expires, headers, txn_app, txn_version, group_name, size, sum, acquired, failed, delivered, worker, payload)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, payload FROM item WHERE seq = ?1;

-- add_done_item: keep done items that were not stored before
INSERT INTO done_item
    (seq, node_id, id, publisher, published, priority, token, done_at, expires, headers, txn_app, txn_version, group_name, size, sum, acquired, failed, delivered, worker, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- revive_item: requeue done items with their payloads, and delete them from the done ones
INSERT INTO item (
    state, due, acquired, failed, released, holder, deadline, token, avoid, aside, taken,
    node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, size, sum, seq, id,
    payload
) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27,
    ?28, ?29, ?30, ?31, payload FROM done_item WHERE seq = ?30;

-- drop_done_item: delete done items
DELETE FROM done_item WHERE seq = ? AND node_id = ? AND done_at = ?;

-- take_place: items take the places of those that they overwrite
INSERT INTO overwritten (seq, contents_id, place)
VALUES (?1, ?2, coalesce((SELECT place FROM overwritten WHERE seq = ?3), ?3));

-- drop_place: delete the places of removed items
DELETE FROM overwritten WHERE seq = ?;

-- drop_receipts: delete the former holders of redriven items
DELETE FROM receipt WHERE seq = ?;

-- add_receipt: the former holder of an item that still exists
INSERT OR IGNORE INTO receipt (seq, jid) SELECT seq, ?2 FROM item WHERE seq = ?1;

-- add_finished: ids of finished work, which absorb a re-publish until a time
INSERT INTO finished (digest, until, node_id, id) VALUES (?, ?, ?, ?);

-- change_finished: replace the payload or the time of such ids
UPDATE finished SET digest = ?, until = ? WHERE node_id = ? AND id = ? AND digest = ? AND until = ?;

-- drop_finished: delete such ids
DELETE FROM finished WHERE node_id = ? AND id = ? AND digest = ? AND until = ?;

-- add_settled: records of settled locks, with the time to delete them
INSERT INTO settled (whose, verdict, until, token) VALUES (?, ?, ?, ?);

-- change_settled: replace an outdated record
UPDATE settled SET whose = ?, verdict = ?, until = ? WHERE token = ? AND until = ?;

-- drop_settled: delete records of settled locks
DELETE FROM settled WHERE token = ? AND until = ?;

-- forget_settled: delete outdated records of locks, the longest overdue first
DELETE FROM settled WHERE token IN (SELECT token FROM settled WHERE until <= ? ORDER BY until LIMIT ?);

-- add_answered: answers to deliveries of other instances
INSERT INTO answered (arrived, until, token) VALUES (?, ?, ?);

-- change_answered: answers to the next step of such deliveries
UPDATE answered SET arrived = ?, until = ? WHERE token = ? AND arrived = ?;

-- drop_answered: delete such answers
DELETE FROM answered WHERE token = ? AND arrived = ?;

-- forget_answered: delete answers whose locks have ended, the longest overdue first
DELETE FROM answered WHERE token IN (SELECT token FROM answered WHERE until <= ? ORDER BY until LIMIT ?);

-- add_ping_answer: answers to pings of other instances
INSERT INTO ping_answer (at, until, jid) VALUES (?, ?, ?);

-- change_ping_answer: newer answers of the same JIDs
UPDATE ping_answer SET at = ?, until = ? WHERE jid = ? AND at = ?;

-- drop_ping_answer: delete such answers
DELETE FROM ping_answer WHERE jid = ? AND at = ?;

-- forget_ping_answers: delete outdated answers, the longest overdue first
DELETE FROM ping_answer WHERE jid IN (SELECT jid FROM ping_answer WHERE until <= ? ORDER BY until LIMIT ?);

-- add_used_key: keys of publishes, with the time to delete them
INSERT INTO used_key (account, content, until, size, ids, known, mark) VALUES (?, ?, ?, ?, ?, ?, ?);

-- change_used_key: replace an outdated key
UPDATE used_key SET account = ?, content = ?, until = ?, size = ?, ids = ?, known = ? WHERE mark = ? AND until = ?;

-- drop_used_key: delete keys
DELETE FROM used_key WHERE mark = ? AND until = ?;

-- forget_used_keys: delete outdated keys, the longest overdue first, and the total of each
DELETE FROM used_key WHERE mark IN (SELECT mark FROM used_key WHERE until <= ? ORDER BY until LIMIT ?) RETURNING account, size;

-- add_key_total: the first keys of accounts
INSERT INTO key_total (bytes, account) VALUES (?, ?);

-- change_key_total: the totals of accounts' keys
UPDATE key_total SET bytes = ? WHERE account = ? AND bytes = ?;

-- drop_key_total: delete the totals of accounts without keys
DELETE FROM key_total WHERE account = ? AND bytes = ?;

-- free_keys: lower the key totals of accounts
UPDATE key_total SET bytes = bytes - ? WHERE account = ?;

-- drop_free_keys: delete totals of accounts without keys
DELETE FROM key_total WHERE account = ? AND bytes = 0;

-- add_kept_message: store messages
INSERT INTO kept_message (sender, account, msg_id, iq_id, digest, byte_count, held, answer, until, message, mark)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- change_kept_message: end messages, or replace those with the same ids
UPDATE kept_message SET sender = ?, account = ?, msg_id = ?, iq_id = ?, digest = ?, byte_count = ?, held = ?, answer = ?, until = ?, message = ?
WHERE mark = ? AND digest = ? AND held = ? AND until = ?;

-- drop_kept_message: delete messages, or answers to their deliveries
DELETE FROM kept_message WHERE mark = ? AND digest = ? AND held = ? AND until = ?;

-- add_message_total: the first kept messages of accounts
INSERT INTO message_total (messages, byte_count, remembered, account) VALUES (?, ?, ?, ?);

-- change_message_total: the totals of accounts' kept messages
UPDATE message_total SET messages = ?, byte_count = ?, remembered = ? WHERE account = ? AND messages = ? AND byte_count = ? AND remembered = ?;

-- drop_message_total: delete the totals of accounts without kept messages
DELETE FROM message_total WHERE account = ? AND messages = ? AND byte_count = ? AND remembered = ?;

-- new_contents: a number that no node has, now or later
INSERT INTO contents (id, node_id) SELECT max(1 << 40, 1 + max(id)), ? FROM contents;

-- forget: delete one of these; as one statement with the query it would walk all ids of a node
DELETE FROM finished WHERE node_id = ? AND id = ?;

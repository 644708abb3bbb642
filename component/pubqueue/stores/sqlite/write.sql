-- Rows as they are written, each guarded by what it was: a statement that finds another number of rows than
-- expected undoes the batch. Nodes come as their ids.

-- count_node: what a batch has added to a node's counts, or taken away
UPDATE node SET items = items + ?, bytes = bytes + ?, subscriptions = subscriptions + ? WHERE id = ?;

-- spend_rate: until when the rate of a node is used up
UPDATE node SET spent = ? WHERE id = ? AND spent = ?;

-- keep_former: those around a node that is about to go are to go, and may have to be told before
INSERT INTO former_node (id, name, telling) SELECT id, name, ?2 FROM node WHERE id = ?1;

-- forget_moved: those of long ago, and the oldest of too many
DELETE FROM moved_node WHERE at < ? OR name IN (SELECT name FROM moved_node ORDER BY at DESC, name DESC LIMIT -1 OFFSET ?);

-- end_subscriptions: those of these JIDs to a node
DELETE FROM subscription WHERE node_id = ? AND jid IN (SELECT value FROM json_each(?));

-- drop_former: who subscribed to a deleted node has been told, up to a JID
DELETE FROM subscription WHERE jid <= ?2 AND node_id = (
    SELECT min(id) FROM former_node WHERE name = ?1 AND telling = 1
);

-- former_notified: everybody who subscribed to a deleted node has been told
UPDATE former_node SET telling = 0 WHERE id = (SELECT min(id) FROM former_node WHERE name = ? AND telling = 1);

-- add_subscription: a subscription that was not there
INSERT INTO subscription
    (node_id, jid, account, subid, queue_requests, in_flight, last_served, available, unanswered, state, deliver, expire, remind,
     temporary, several)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- change_subscription: its window, whether it is here, and its counts
UPDATE subscription SET queue_requests = ?, in_flight = in_flight + ?, last_served = max(last_served, ?),
    available = ?, unanswered = ?
WHERE subid = ?;

-- change_terms: how it stands, and its options
UPDATE subscription SET state = ?, deliver = ?, expire = ?, remind = ?, temporary = ?, several = ?, subid = ?
WHERE subid = ?;

-- drop_subscription: the subscription goes, its locks stay
DELETE FROM subscription WHERE subid = ?;

-- add_resource: a full JID is here
INSERT OR IGNORE INTO resource (jid, account) VALUES (?, ?);

-- hear_of: a full JID that is here has shown itself
UPDATE resource SET since = max(since, ?) WHERE jid = ?;

-- drop_resource: a full JID has left
DELETE FROM resource WHERE jid = ?;

-- remove_item: the item is gone
DELETE FROM item WHERE seq = ? AND node_id = ? AND state = ? AND token = ?;

-- park_item: a name that nobody can give, for an item whose place another one is about to leave
UPDATE item SET id = char(0) || seq WHERE seq = ?;

-- name_item: its own name again
UPDATE item SET id = ? WHERE seq = ?;

-- hand_item: an item is locked or let go, in its place; the columns that this changes, for each costs time
UPDATE item SET state = ?, due = ?, acquired = ?, failed = ?, released = ?, holder = ?, deadline = ?,
    token = max(token, ?), avoid = ?, aside = ?, taken = ?
WHERE seq = ? AND node_id = ? AND state = ? AND token = ?;

-- turn_item: the same of an item whose turn it is since, and seldom no more
UPDATE item SET state = ?, due = ?, acquired = ?, failed = ?, released = ?, holder = ?, deadline = ?,
    token = max(token, ?), avoid = ?, aside = ?, taken = ?, turn = ?
WHERE seq = ? AND node_id = ? AND state = ? AND token = ?;

-- change_item: whatever may change of an item
UPDATE item SET state = ?, due = ?, acquired = ?, failed = ?, released = ?, holder = ?, deadline = ?,
    token = max(token, ?), avoid = ?, aside = ?, taken = ?,
    node_id = ?, publisher = ?, published = ?, priority = ?, expires = ?, headers = ?,
    death = ?, dead_at = ?, dead_reason = ?, dead_from = ?, last_holder = ?, txn_app = ?, txn_version = ?,
    group_name = ?, turn = ?, failure = ?, size = ?
WHERE seq = ? AND node_id = ? AND state = ? AND token = ?;

-- change_payload: another payload
UPDATE item SET payload = ? WHERE seq = ?;

-- add_item: a new item of the common kind, whether it waits or is locked already
INSERT INTO item
    (seq, node_id, id, state, publisher, published, priority, acquired, holder, deadline, token, taken, size, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- add_waiting_item: a new item of the common kind that nobody has held; NULLs too take time to hand over
INSERT INTO item (seq, node_id, id, state, publisher, published, priority, size, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- add_any_item: a new item with all its columns
INSERT INTO item (
    state, due, acquired, failed, released, holder, deadline, token, avoid, aside, taken,
    node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, size, seq, id,
    payload
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- take_place: an item stands where the one did that it overwrites
INSERT INTO overwritten (seq, contents_id, place)
VALUES (?1, ?2, coalesce((SELECT place FROM overwritten WHERE seq = ?3), ?3));

-- drop_place: an item is gone
DELETE FROM overwritten WHERE seq = ?;

-- drop_receipts: an item with a new life has no former holders
DELETE FROM receipt WHERE seq = ?;

-- add_receipt: who lost an item that is still there
INSERT OR IGNORE INTO receipt (seq, jid) SELECT seq, ?2 FROM item WHERE seq = ?1;

-- add_finished: the id absorbs a re-publish until then
INSERT INTO finished (digest, until, node_id, id) VALUES (?, ?, ?, ?);

-- change_finished: of another payload, or longer
UPDATE finished SET digest = ?, until = ? WHERE node_id = ? AND id = ? AND digest = ? AND until = ?;

-- drop_finished: the id absorbs nothing
DELETE FROM finished WHERE node_id = ? AND id = ? AND digest = ? AND until = ?;

-- new_contents: another number than any node's, now or later
INSERT INTO contents (id, node_id) SELECT max(1 << 40, 1 + max(id)), ? FROM contents;

-- forget: one of these; in one statement with the question all ids of a node would be walked
DELETE FROM finished WHERE node_id = ? AND id = ?;

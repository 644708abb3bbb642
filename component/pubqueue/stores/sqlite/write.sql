-- Rows as they are written, each guarded by what it was: a statement that finds another number of rows than
-- expected undoes the batch. Nodes come as their ids.

-- number: reserve numbers of a sequence; it begins with 1
INSERT INTO sequence (name, next) VALUES (?2, 1 + ?1)
ON CONFLICT (name) DO UPDATE SET next = next + ?1 RETURNING next - ?1;

-- add_node: a node that was not there
INSERT INTO node (name, config, creator, created, items, subscriptions, spent) VALUES (?, ?, ?, ?, ?, ?, ?);

-- count_node: what a batch has added to a node's counts, or taken away
UPDATE node SET items = items + ?, subscriptions = subscriptions + ? WHERE id = ?;

-- spend_rate: until when the rate of a node is used up
UPDATE node SET spent = ? WHERE id = ? AND spent = ?;

-- config: the settings of a node
SELECT config FROM node WHERE id = ?;

-- configure: other settings
UPDATE node SET config = ?, creator = ? WHERE id = ?;

-- drop_node: a node; its contents are nobody's then
DELETE FROM node WHERE id = ?;

-- leave_people: those around a node that is about to go are to go, and may have to be told before
INSERT INTO former_node (id, name, telling) SELECT id, name, ?2 FROM node WHERE id = ?1;

-- drop_subscriptions: those to a deleted node, so many at most
DELETE FROM subscription WHERE id IN (SELECT id FROM subscription WHERE node_id = ? LIMIT ?);

-- drop_affiliations: those to a deleted node, so many at most
DELETE FROM affiliation WHERE (node_id, jid) IN (SELECT node_id, jid FROM affiliation WHERE node_id = ? LIMIT ?);

-- forget_node: a deleted node, if nobody belongs to it any more
DELETE FROM former_node WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM subscription WHERE node_id = ?1)
    AND NOT EXISTS (SELECT 1 FROM affiliation WHERE node_id = ?1);

-- begin_review: the subscribers of a node are to be looked through
INSERT OR IGNORE INTO review (node_id) VALUES (?);

-- end_review: they have been
DELETE FROM review WHERE node_id = ?;

-- begin_trim: the items of a node are to be trimmed
INSERT OR IGNORE INTO trim (node_id) VALUES (?);

-- end_trim: they have been
DELETE FROM trim WHERE node_id = ?;

-- move_node: who asks for a deleted node is told where it is
INSERT INTO moved_node (name, uri, at) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET uri = excluded.uri, at = excluded.at;

-- forget_moved: those of long ago, and the oldest of too many
DELETE FROM moved_node WHERE at < ? OR name IN (SELECT name FROM moved_node ORDER BY at DESC, name DESC LIMIT -1 OFFSET ?);

-- settle_node: there is a node of this name again
DELETE FROM moved_node WHERE name = ?;

-- end_subscriptions: those of these JIDs to a node
DELETE FROM subscription WHERE node_id = ? AND jid IN (SELECT value FROM json_each(?));

-- part_with: who subscribed to a deleted node has been told, up to a JID
DELETE FROM subscription WHERE jid <= ?2 AND node_id = (
    SELECT min(id) FROM former_node WHERE name = ?1 AND telling = 1
);

-- all_told: everybody who subscribed to a deleted node has been told
UPDATE former_node SET telling = 0 WHERE id = (SELECT min(id) FROM former_node WHERE name = ? AND telling = 1);

-- add_affiliation: what an account is to a node from now on
INSERT INTO affiliation (node_id, jid, affiliation) VALUES (?, ?, ?);

-- change_affiliation: something else than before
UPDATE affiliation SET affiliation = ? WHERE node_id = ? AND jid = ? AND affiliation = ?;

-- drop_affiliation: nothing any more
DELETE FROM affiliation WHERE node_id = ? AND jid = ? AND affiliation = ?;

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
    group_name = ?, turn = ?, failure = ?
WHERE seq = ? AND node_id = ? AND state = ? AND token = ?;

-- change_payload: another payload
UPDATE item SET payload = ? WHERE seq = ?;

-- add_item: a new item of the common kind, whether it waits or is locked already
INSERT INTO item
    (seq, node_id, id, state, publisher, published, priority, acquired, holder, deadline, token, taken, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- add_waiting_item: a new item of the common kind that nobody has held; NULLs too take time to hand over
INSERT INTO item (seq, node_id, id, state, publisher, published, priority, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- add_any_item: a new item with all its columns
INSERT INTO item (
    state, due, acquired, failed, released, holder, deadline, token, avoid, aside, taken,
    node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, seq, id, payload
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

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

-- add_contents: the first contents of a node have its number
INSERT INTO contents (id, node_id) SELECT id, id FROM node WHERE name = ?;

-- leave_contents: what a node contains is nobody's any more
UPDATE contents SET node_id = NULL WHERE node_id = ?;

-- new_contents: another number than any node's, now or later
INSERT INTO contents (id, node_id) SELECT max(1 << 40, 1 + max(id)), ? FROM contents;

-- no_items: a purged node counts from zero
UPDATE node SET items = 0 WHERE id = ?;

-- no_locks: and nobody holds anything of it
UPDATE subscription SET in_flight = 0 WHERE node_id = ? AND in_flight > 0;

-- outdated: ids of finished work that no longer count, the longest overdue first
SELECT node_id, id FROM finished WHERE until <= ? ORDER BY until LIMIT ?;

-- forget: one of these; in one statement with the question all ids of a node would be walked
DELETE FROM finished WHERE node_id = ? AND id = ?;

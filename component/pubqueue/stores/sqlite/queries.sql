-- Every statement of the store, by name, each with its purpose. Columns of an item stand in the order
-- of core.model.Item's fields; %(item)s puts them in.

-- node: a node by its name
SELECT name, config, creator, created, items, subscriptions FROM node WHERE name = ?;

-- nodes: every node, by name
SELECT name, config, creator, created, items, subscriptions FROM node ORDER BY name;

-- ready_nodes: the nodes with something to hand out and somebody to take it
SELECT name FROM node WHERE EXISTS (
    SELECT 1 FROM subscription WHERE node_id = node.id AND available AND in_flight < queue_requests
) AND (
    EXISTS (SELECT 1 FROM item WHERE node_id = node.id AND state = 'queued')
    OR EXISTS (SELECT 1 FROM item WHERE node_id = node.id AND aside)
) ORDER BY name;

-- affiliation: what an account is to a node
SELECT affiliation FROM affiliation WHERE node_id = (SELECT id FROM node WHERE name = ?) AND jid = ?;

-- affiliations: everybody who is something to a node
SELECT jid, affiliation FROM affiliation WHERE node_id = (SELECT id FROM node WHERE name = ?) ORDER BY jid;

-- subscription: the subscription of exactly this JID
SELECT n.name, s.jid, subid, queue_requests, in_flight, last_served, available, bounces
FROM subscription s JOIN node n ON n.id = s.node_id WHERE n.name = ? AND s.jid = ?;

-- subscribed: whether any JID of an account subscribes
SELECT 1 FROM subscription WHERE node_id = (SELECT id FROM node WHERE name = ?) AND account = ? LIMIT 1;

-- subscribers: every subscription to a node, oldest first
SELECT n.name, s.jid, subid, queue_requests, in_flight, last_served, available, bounces
FROM subscription s JOIN node n ON n.id = s.node_id WHERE n.name = ? ORDER BY s.id;

-- open_windows: the subscriptions that could be handed something
SELECT ?1, jid, subid, queue_requests, in_flight, last_served, available, bounces FROM subscription
WHERE node_id = (SELECT id FROM node WHERE name = ?1) AND available AND in_flight < queue_requests;

-- subscriptions_of: the subscriptions of exactly this JID, in every node
SELECT n.name, s.jid, subid, queue_requests, in_flight, last_served, available, bounces
FROM subscription s JOIN node n ON n.id = s.node_id WHERE s.jid = ?;

-- subscriptions_of_account: the subscriptions of all JIDs of an account, in every node
SELECT n.name, s.jid, subid, queue_requests, in_flight, last_served, available, bounces
FROM node n CROSS JOIN subscription s INDEXED BY subscription_account ON s.node_id = n.id AND s.account = ? ORDER BY n.name, s.jid;

-- resources: the full JIDs of an account that are here
SELECT jid FROM resource WHERE account = ? ORDER BY id;

-- item: an item by its id
SELECT %(item)s FROM item WHERE node_id = (SELECT id FROM node WHERE name = ?1) AND id = ?2;

-- item_at: an item by its sequence number, with its node's name
SELECT %(item)s, (SELECT name FROM node WHERE node.id = node_id) FROM item WHERE seq = ?;

-- item_ids: the ids of a node's oldest items
SELECT id FROM item WHERE node_id = (SELECT id FROM node WHERE name = ?) ORDER BY seq LIMIT ?;

-- payload: a payload as it was published
SELECT payload FROM item WHERE seq = ?;

-- held: which of two JIDs held an item and lost it
SELECT jid FROM receipt WHERE seq = ? AND jid IN (?, ?);

-- finished: the digest of finished work that still counts
SELECT digest FROM finished WHERE node_id = (SELECT id FROM node WHERE name = ?) AND id = ? AND until > ?;

-- held_by: what is locked to exactly this JID, in every node
SELECT %(item)s, (SELECT name FROM node WHERE node.id = node_id) FROM item
WHERE state = 'locked' AND holder = ? ORDER BY seq;

-- held_count: how many items of a node are locked to this JID
SELECT count(*) FROM item
WHERE state = 'locked' AND holder = ?2 AND node_id = (SELECT id FROM node WHERE name = ?1);

-- ready: the next items to hand out, with their payloads; the partial index is walked in its order
SELECT %(item)s, payload FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?1) AND state = 'queued' AND (expires IS NULL OR expires > ?2)
ORDER BY priority DESC, seq LIMIT ?3;

-- aside: items delayed only for the one they avoid
SELECT %(item)s, payload FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?1) AND aside AND (expires IS NULL OR expires > ?2)
ORDER BY priority DESC, seq LIMIT ?3;

-- dead: items that died here or came here dead, and are free
SELECT %(item)s, dead_from FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?) AND dead_at IS NOT NULL AND state != 'locked'
ORDER BY seq LIMIT ?;

-- origin: where a dead item came from
SELECT dead_from FROM item WHERE seq = ?;

-- deaths: what is kept of the dead in a part of a node
SELECT id, published, dead_at, dead_reason, dead_from, last_holder FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?) AND dead_at IS NOT NULL AND seq BETWEEN ? AND ? ORDER BY seq;

-- oldest: a page of a node's items behind a sequence number
SELECT %(item)s, payload FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?1) AND seq > ?2 ORDER BY seq LIMIT ?3;

-- newest: a node's last items, the newest first
SELECT %(item)s, payload FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?1) ORDER BY seq DESC LIMIT ?2;

-- oldest_held: the same, of what one of two JIDs holds
SELECT %(item)s, payload FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?1) AND seq > ?2 AND state = 'locked' AND holder IN (?4, ?5)
ORDER BY seq LIMIT ?3;

-- newest_held: the same, of what one of two JIDs holds
SELECT %(item)s, payload FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?1) AND state = 'locked' AND holder IN (?3, ?4)
ORDER BY seq DESC LIMIT ?2;

-- ripe: the nodes with delayed items whose time has come
SELECT DISTINCT n.name FROM item i JOIN node n ON n.id = i.node_id WHERE i.state = 'delayed' AND i.due <= ?;

-- expired_locks: locks whose deadline has come
SELECT %(item)s, (SELECT name FROM node WHERE node.id = node_id) FROM item
WHERE state = 'locked' AND deadline <= ? ORDER BY deadline LIMIT ?;

-- locks_beyond: a node's locks that end after a moment; the sign + as below
SELECT %(item)s FROM item
WHERE state = 'locked' AND deadline > ?2 AND +node_id = (SELECT id FROM node WHERE name = ?1) ORDER BY deadline;

-- expired_lives: items that nobody holds and whose time to live has ended
SELECT %(item)s, (SELECT name FROM node WHERE node.id = node_id) FROM item
WHERE expires IS NOT NULL AND state IN ('queued', 'delayed') AND expires <= ? ORDER BY expires LIMIT ?;

-- next_moment: when the next lock, pause, life or wait for a commit ends, or now if there is something to sweep;
-- each part reads one end of one index
SELECT min(moment) FROM (
    SELECT min(deadline) AS moment FROM item WHERE state = 'locked'
    UNION ALL SELECT min(due) FROM item WHERE state = 'delayed'
    UNION ALL SELECT min(expires) FROM item WHERE expires IS NOT NULL AND state IN ('queued', 'delayed')
    UNION ALL SELECT min(until) FROM txn WHERE committed IS NULL
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM attempt WHERE txn_id IS NULL)
);

-- tokens: reserve lock tokens
UPDATE token SET next = next + ? RETURNING next;

-- create_node: a node that was not there
INSERT INTO node (name, config, creator, created) VALUES (?, ?, ?, ?);

-- configure_node: other settings
UPDATE node SET config = ? WHERE name = ?;

-- delete_node: a node with all that hangs on it
DELETE FROM node WHERE name = ?;

-- purge_node: all items of a node
DELETE FROM item WHERE node_id = (SELECT id FROM node WHERE name = ?);

-- no_items: a purged node counts from zero
UPDATE node SET items = 0 WHERE name = ?;

-- no_locks: and nobody holds anything of it
UPDATE subscription SET in_flight = 0 WHERE node_id = (SELECT id FROM node WHERE name = ?);

-- count_items: what a batch has added to a node, or taken away
UPDATE node SET items = items + ? WHERE name = ?;

-- count_locks: what a batch has locked to a JID, or freed, and the last token it was given
-- and whether a retract has shown that deliveries arrive
UPDATE subscription SET in_flight = in_flight + ?, last_served = max(last_served, ?), bounces = bounces * ?
WHERE node_id = (SELECT id FROM node WHERE name = ?) AND jid = ?;

-- set_affiliation: what an account is to a node from now on
INSERT INTO affiliation (node_id, jid, affiliation) VALUES ((SELECT id FROM node WHERE name = ?), ?, ?)
ON CONFLICT (node_id, jid) DO UPDATE SET affiliation = excluded.affiliation;

-- drop_affiliation: nothing any more
DELETE FROM affiliation WHERE node_id = (SELECT id FROM node WHERE name = ?) AND jid = ?;

-- add_subscription: a subscription that was not there
INSERT INTO subscription (node_id, jid, account, subid, queue_requests, in_flight)
VALUES ((SELECT id FROM node WHERE name = ?), ?, ?, ?, ?, ?);

-- set_window: another window, and the subscriber is here
UPDATE subscription SET queue_requests = ?, available = 1
WHERE node_id = (SELECT id FROM node WHERE name = ?) AND jid = ?;

-- note_bounces: how many deliveries have come back in a row
UPDATE subscription SET bounces = ? WHERE node_id = (SELECT id FROM node WHERE name = ?) AND jid = ?;

-- set_available: whether the subscriber can be handed items
UPDATE subscription SET available = ? WHERE node_id = (SELECT id FROM node WHERE name = ?) AND jid = ?;

-- note_resource: a full JID is here
INSERT OR IGNORE INTO resource (jid, account) VALUES (?, ?);

-- crowd_out: of so many full JIDs the first to come are forgotten, for anybody can send presence
DELETE FROM resource WHERE id <= (SELECT max(id) FROM resource) - ?;

-- forget_resource: a full JID has left
DELETE FROM resource WHERE jid = ?;

-- end_subscription: the subscription goes, its locks stay
DELETE FROM subscription WHERE node_id = (SELECT id FROM node WHERE name = ?) AND jid = ?;

-- add_item: an item at the end of a node
INSERT INTO item (node_id, id, state, publisher, published, priority, due, expires, txn_app, txn_version, headers, payload)
VALUES ((SELECT id FROM node WHERE name = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- replace_payload: another payload for an item that nobody holds
UPDATE item SET payload = ?, headers = ?, publisher = ? WHERE seq = ? AND state != 'locked';

-- lock: the item goes to a holder
UPDATE item SET state = 'locked', holder = ?, deadline = ?, token = ?, taken = ?, acquired = acquired + 1, due = NULL,
    aside = 0
WHERE seq = ? AND state = ? AND state IN ('queued', 'delayed') AND token = ?;

-- release: the lock ends, the item waits again
UPDATE item SET state = ?, due = ?, failed = ?, released = ?, avoid = holder, holder = NULL, deadline = NULL
WHERE seq = ? AND state = 'locked' AND token = ?;

-- add_receipt: who lost it
INSERT OR IGNORE INTO receipt (seq, jid) VALUES (?, ?);

-- postpone: a waiting item waits until then
UPDATE item SET state = 'delayed', due = ?, aside = 1 WHERE seq = ? AND state = 'queued';

-- ripen: delayed items whose time has come, so many at once that a batch stays short; the sign + keeps
-- SQLite from walking all items of the node
UPDATE item SET state = 'queued', aside = 0 WHERE seq IN (
    SELECT seq FROM item WHERE state = 'delayed' AND due <= ?2
    AND +node_id = (SELECT id FROM node WHERE name = ?1) ORDER BY due LIMIT 1000
);

-- bury: the item is dead and stays where it is
UPDATE item SET state = 'dead', death = (SELECT next FROM token), dead_at = ?, dead_reason = ?, failed = ?, last_holder = coalesce(holder, avoid), aside = 0,
    holder = NULL, deadline = NULL
WHERE seq = ? AND state = ? AND token = ?;

-- entomb: the item leaves for the dead-letter node, where it waits as a new one
UPDATE item SET node_id = (SELECT id FROM node WHERE name = ?), state = 'queued', due = NULL, expires = NULL,
    death = (SELECT next FROM token), taken = NULL, dead_at = ?, dead_reason = ?, dead_from = ?, last_holder = coalesce(holder, avoid),
    acquired = 0, failed = 0, released = 0, avoid = NULL, aside = 0, holder = NULL, deadline = NULL
WHERE seq = ? AND state = ? AND token = ?;

-- extend: the lock lasts longer
UPDATE item SET deadline = ? WHERE seq = ? AND state = 'locked' AND token = ?;

-- revive: a dead item waits in a node as if it were new
UPDATE item SET node_id = (SELECT id FROM node WHERE name = ?), state = 'queued', due = NULL, expires = NULL,
    death = NULL, taken = NULL, dead_at = NULL, dead_reason = NULL, dead_from = NULL, last_holder = NULL,
    acquired = 0, failed = 0, released = 0, avoid = NULL, aside = 0
WHERE seq = ? AND state = ? AND token = ?;

-- drop_receipts: an item with a new life has no former holders
DELETE FROM receipt WHERE seq = ?;

-- remove_item: the item is gone
DELETE FROM item WHERE seq = ? AND state = ? AND token = ?;

-- add_finished: its id absorbs a re-publish until then
INSERT INTO finished (node_id, id, digest, until)
VALUES ((SELECT id FROM node WHERE name = ?), ?, ?, ?)
ON CONFLICT (node_id, id) DO UPDATE SET digest = excluded.digest, until = excluded.until;

-- forget: ids of finished work that no longer count
DELETE FROM finished WHERE (node_id, id) IN (SELECT node_id, id FROM finished WHERE until <= ? LIMIT 50000);

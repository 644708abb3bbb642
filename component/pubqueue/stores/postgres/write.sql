-- Rows as they are written, each guarded by what it was: a statement that finds another number of rows than
-- expected undoes the batch. Nodes come as their ids. What is written of many rows at once comes as arrays, one for
-- each column. What is to be changed is looked for by its key, for each in turn, as in load.sql, and then found by its place (ctid).

-- count_node: what a batch has added to nodes' counts, or taken away
UPDATE node SET items = node.items + v.items, bytes = node.bytes + v.bytes, subscriptions = node.subscriptions + v.subscriptions
FROM (
    SELECT v.*, x.ctid AS at_row
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) v(items, bytes, subscriptions, id)
    CROSS JOIN LATERAL (SELECT ctid FROM node WHERE id = v.id OFFSET 0) x
) v WHERE node.ctid = v.at_row;

-- spend_rate: until when the rates of nodes are used up
UPDATE node SET spent = v.spent FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) v(spent, id, was)
    CROSS JOIN LATERAL (SELECT ctid, spent FROM node WHERE id = v.id OFFSET 0) x WHERE x.spent = v.was
) v WHERE node.ctid = v.at_row;

-- keep_former: those around a node that is about to go are to go, and may have to be told before
INSERT INTO former_node (id, name, telling) SELECT id, name, $2::bigint <> 0 FROM node WHERE id = $1;

-- forget_moved: those of long ago, and the oldest of too many
DELETE FROM moved_node WHERE at < $1 OR name IN (SELECT name FROM moved_node ORDER BY at DESC, name DESC OFFSET $2);

-- end_subscriptions: those of these JIDs to a node
DELETE FROM subscription s USING (
    SELECT x.ctid AS at_row FROM json_array_elements_text($2::json) k(value) CROSS JOIN LATERAL (
        SELECT ctid FROM subscription WHERE node_id = $1 AND left(jid, 500) = left(k.value, 500) AND jid = k.value OFFSET 0
    ) x
) k WHERE s.ctid = k.at_row;

-- drop_former: who subscribed to a deleted node has been told, up to a JID
DELETE FROM subscription WHERE left(jid, 500) <= left($2::text, 500) AND jid <= $2 AND node_id = (
    SELECT min(id) FROM former_node WHERE name = $1 AND telling
);

-- former_notified: everybody who subscribed to a deleted node has been told
UPDATE former_node SET telling = false WHERE id = (SELECT min(id) FROM former_node WHERE name = $1 AND telling);

-- add_subscription: subscriptions that were not there
INSERT INTO subscription
    (node_id, jid, account, subid, queue_requests, in_flight, last_served, available, unanswered, state, deliver, expire, remind,
     temporary, several)
SELECT v.node_id, v.jid, v.account, v.subid, v.queue_requests, v.in_flight, v.last_served, v.available <> 0, v.unanswered,
    v.state, v.deliver <> 0, v.expire, v.remind, v.temporary <> 0, v.several
FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[]
) v(node_id, jid, account, subid, queue_requests, in_flight, last_served, available, unanswered, state, deliver, expire, remind,
    temporary, several);

-- change_subscription: their windows, whether they are here, and their counts
UPDATE subscription s SET queue_requests = v.queue_requests, in_flight = s.in_flight + v.in_flight,
    last_served = greatest(s.last_served, v.last_served), available = v.available <> 0, unanswered = v.unanswered
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[]
    ) v(queue_requests, in_flight, last_served, available, unanswered, subid)
    CROSS JOIN LATERAL (SELECT ctid FROM subscription WHERE subid = v.subid OFFSET 0) x
) v WHERE s.ctid = v.at_row;

-- change_terms: how subscriptions stand, and their options
UPDATE subscription s SET state = v.state, deliver = v.deliver <> 0, expire = v.expire, remind = v.remind,
    temporary = v.temporary <> 0, several = v.several, subid = v.subid
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[])
    v(state, deliver, expire, remind, temporary, several, subid, was)
WHERE s.subid = v.was;

-- drop_subscription: the subscriptions go, their locks stay
DELETE FROM subscription s USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::text[]) v(subid)
    CROSS JOIN LATERAL (SELECT ctid FROM subscription WHERE subid = v.subid OFFSET 0) x
) v WHERE s.ctid = v.at_row;

-- add_resource: full JIDs are here
INSERT INTO resource (id, jid, account)
SELECT (SELECT coalesce(max(id), 0) FROM resource) + row_number() OVER (ORDER BY n.place), n.jid, n.account FROM (
    SELECT DISTINCT ON (v.jid) v.jid, v.account, v.place FROM unnest($1::text[], $2::text[]) WITH ORDINALITY v(jid, account, place)
    WHERE NOT EXISTS (SELECT 1 FROM resource r WHERE left(r.jid, 500) = left(v.jid, 500) AND r.jid = v.jid) ORDER BY v.jid, v.place
) n;

-- hear_of: full JIDs that are here have shown themselves
UPDATE resource r SET since = greatest(r.since, v.since) FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::text[]) v(since, jid)
    CROSS JOIN LATERAL (SELECT ctid FROM resource WHERE left(jid, 500) = left(v.jid, 500) AND jid = v.jid OFFSET 0) x
) v WHERE r.ctid = v.at_row;

-- drop_resource: full JIDs have left
DELETE FROM resource r USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::text[]) v(jid)
    CROSS JOIN LATERAL (SELECT ctid FROM resource WHERE left(jid, 500) = left(v.jid, 500) AND jid = v.jid OFFSET 0) x
) v WHERE r.ctid = v.at_row;

-- remove_item: the items are gone
DELETE FROM item i USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) v(seq, node_id, state, token)
    CROSS JOIN LATERAL (SELECT ctid, node_id, state, token FROM item WHERE seq = v.seq OFFSET 0) x
    WHERE x.node_id = v.node_id AND x.state = v.state AND x.token = v.token
) v WHERE i.ctid = v.at_row;

-- park_item: names that nobody can give, for items whose places other ones are about to leave
UPDATE item i SET id = chr(1) || i.seq FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[]) v(seq)
    CROSS JOIN LATERAL (SELECT ctid FROM item WHERE seq = v.seq OFFSET 0) x
) v WHERE i.ctid = v.at_row;

-- name_item: their own names again
UPDATE item i SET id = v.id FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::text[], $2::bigint[]) v(id, seq)
    CROSS JOIN LATERAL (SELECT ctid FROM item WHERE seq = v.seq OFFSET 0) x
) v WHERE i.ctid = v.at_row;

-- hand_item: items are locked or let go, in their places
UPDATE item i SET state = v.state, due = v.due, acquired = v.acquired, failed = v.failed, released = v.released,
    holder = v.holder, deadline = v.deadline, token = greatest(i.token, v.token), avoid = v.avoid, aside = v.aside <> 0,
    taken = v.taken
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::bigint[]
) v(state, due, acquired, failed, released, holder, deadline, token, avoid, aside, taken, seq, was_in, was, had)
    CROSS JOIN LATERAL (SELECT ctid, node_id, state, token FROM item WHERE seq = v.seq OFFSET 0) x
    WHERE x.node_id = v.was_in AND x.state = v.was AND x.token = v.had
) v WHERE i.ctid = v.at_row;

-- turn_item: the same of items whose turn it is since, and seldom no more
UPDATE item i SET state = v.state, due = v.due, acquired = v.acquired, failed = v.failed, released = v.released,
    holder = v.holder, deadline = v.deadline, token = greatest(i.token, v.token), avoid = v.avoid, aside = v.aside <> 0,
    taken = v.taken, turn = v.turn
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::bigint[]
) v(state, due, acquired, failed, released, holder, deadline, token, avoid, aside, taken, turn, seq, was_in, was, had)
    CROSS JOIN LATERAL (SELECT ctid, node_id, state, token FROM item WHERE seq = v.seq OFFSET 0) x
    WHERE x.node_id = v.was_in AND x.state = v.was AND x.token = v.had
) v WHERE i.ctid = v.at_row;

-- change_item: whatever may change of items
UPDATE item i SET state = v.state, due = v.due, acquired = v.acquired, failed = v.failed, released = v.released,
    holder = v.holder, deadline = v.deadline, token = greatest(i.token, v.token), avoid = v.avoid, aside = v.aside <> 0,
    taken = v.taken, node_id = v.node_id, publisher = v.publisher, published = v.published, priority = v.priority,
    expires = v.expires, headers = v.headers, death = v.death, dead_at = v.dead_at, dead_reason = v.dead_reason,
    dead_from = v.dead_from, last_holder = v.last_holder, txn_app = v.txn_app, txn_version = v.txn_version,
    group_name = v.group_name, turn = v.turn, failure = v.failure, size = v.size
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[],
    $18::bigint[], $19::bigint[], $20::text[], $21::text[], $22::text[], $23::text[], $24::bigint[],
    $25::text[], $26::bigint[], $27::text[], $28::bigint[], $29::bigint[], $30::bigint[], $31::text[],
    $32::bigint[]
) v(state, due, acquired, failed, released, holder, deadline, token, avoid,
    aside, taken, node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn,
    failure, size, seq, was_in, was, had)
    CROSS JOIN LATERAL (SELECT ctid, node_id, state, token FROM item WHERE seq = v.seq OFFSET 0) x
    WHERE x.node_id = v.was_in AND x.state = v.was AND x.token = v.had
) v WHERE i.ctid = v.at_row;

-- change_payload: other payloads
UPDATE item i SET payload = v.payload FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bytea[], $2::bigint[]) v(payload, seq)
    CROSS JOIN LATERAL (SELECT ctid FROM item WHERE seq = v.seq OFFSET 0) x
) v WHERE i.ctid = v.at_row;

-- add_item: new items of the common kind, whether they wait or are locked already
INSERT INTO item
    (seq, node_id, id, state, publisher, published, priority, acquired, holder, deadline, token, taken, size, payload)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bytea[]
);

-- add_waiting_item: new items of the common kind that nobody has held
INSERT INTO item (seq, node_id, id, state, publisher, published, priority, size, payload)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[]
);

-- add_any_item: new items with all their columns
INSERT INTO item (
    state, due, acquired, failed, released, holder, deadline, token, avoid, aside, taken,
    node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, size, seq, id,
    payload
) SELECT
    v.state, v.due, v.acquired, v.failed, v.released, v.holder, v.deadline, v.token, v.avoid, v.aside <> 0, v.taken,
    v.node_id, v.publisher, v.published, v.priority, v.expires, v.headers,
    v.death, v.dead_at, v.dead_reason, v.dead_from, v.last_holder, v.txn_app, v.txn_version, v.group_name, v.turn,
    v.failure, v.size, v.seq, v.id, v.payload
FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[],
    $18::bigint[], $19::bigint[], $20::text[], $21::text[], $22::text[], $23::text[], $24::bigint[],
    $25::text[], $26::bigint[], $27::text[], $28::bigint[], $29::bigint[], $30::text[], $31::bytea[]
) v(state, due, acquired, failed, released, holder, deadline, token, avoid,
    aside, taken, node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, size, seq, id, payload);

-- take_place: items stand where those did that they overwrite
INSERT INTO overwritten (seq, contents_id, place)
SELECT v.seq, v.contents, coalesce((SELECT o.place FROM overwritten o WHERE o.seq = v.old), v.old)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) v(seq, contents, old);

-- drop_place: items are gone
DELETE FROM overwritten o USING unnest($1::bigint[]) v(seq) WHERE o.seq = v.seq;

-- drop_receipts: items with a new life have no former holders
DELETE FROM receipt r USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[]) v(seq)
    CROSS JOIN LATERAL (SELECT ctid FROM receipt WHERE seq = v.seq OFFSET 0) x
) v WHERE r.ctid = v.at_row;

-- add_receipt: who lost an item that is still there
INSERT INTO receipt (seq, jid) SELECT i.seq, v.jid FROM unnest($1::bigint[], $2::text[]) v(seq, jid)
CROSS JOIN LATERAL (SELECT seq FROM item WHERE seq = v.seq OFFSET 0) i
ON CONFLICT DO NOTHING;

-- add_finished: the ids absorb a re-publish until then
INSERT INTO finished (digest, until, node_id, id) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[]);

-- change_finished: of another payload, or longer
UPDATE finished f SET digest = v.digest, until = v.until
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
        $1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[], $6::bigint[]
    ) v(digest, until, node_id, id, was, was_until)
    CROSS JOIN LATERAL (SELECT ctid, digest, until FROM finished WHERE node_id = v.node_id AND id = v.id OFFSET 0) x
    WHERE x.digest = v.was AND x.until = v.was_until
) v WHERE f.ctid = v.at_row;

-- drop_finished: the ids absorb nothing
DELETE FROM finished f USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bigint[]) v(node_id, id, was, was_until)
    CROSS JOIN LATERAL (SELECT ctid, digest, until FROM finished WHERE node_id = v.node_id AND id = v.id OFFSET 0) x
    WHERE x.digest = v.was AND x.until = v.was_until
) v WHERE f.ctid = v.at_row;

-- new_contents: another number than any node's, now or later
INSERT INTO contents (id, node_id) SELECT greatest(1099511627776, 1 + max(id)), $1::bigint FROM contents;

-- forget: some of these
DELETE FROM finished f USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::text[]) v(node_id, id)
    CROSS JOIN LATERAL (SELECT ctid FROM finished WHERE node_id = v.node_id AND id = v.id OFFSET 0) x
) v WHERE f.ctid = v.at_row;

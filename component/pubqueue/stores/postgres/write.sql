-- Writes of rows, each guarded by the state before: a statement that finds another number of rows than
-- expected rolls back the batch. Nodes are passed as their ids, and columns of many rows as arrays.
-- Rows to change are looked up by key, one after the other, as in load.sql, and then found by their place (ctid).

-- count_node: apply the changes of a batch to the counts of nodes
UPDATE node SET items = node.items + v.items, bytes = node.bytes + v.bytes, subscriptions = node.subscriptions + v.subscriptions,
    done = node.done + v.done, done_bytes = node.done_bytes + v.done_bytes
FROM (
    SELECT v.*, x.ctid AS at_row
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
        v(items, bytes, subscriptions, done, done_bytes, id)
    CROSS JOIN LATERAL (SELECT ctid FROM node WHERE id = v.id OFFSET 0) x
) v WHERE node.ctid = v.at_row;

-- spend_rate: the times until which nodes have used up their rates
UPDATE node SET spent = v.spent FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) v(spent, id, was)
    CROSS JOIN LATERAL (SELECT ctid, spent FROM node WHERE id = v.id OFFSET 0) x WHERE x.spent = v.was
) v WHERE node.ctid = v.at_row;

-- keep_former: subscribers of a node to be deleted, if they need a notice
INSERT INTO former_node (id, name, telling) SELECT id, name, $2::bigint <> 0 FROM node WHERE id = $1;

-- forget_moved: delete outdated new addresses, and the oldest beyond the limit
DELETE FROM moved_node WHERE at < $1 OR name IN (SELECT name FROM moved_node ORDER BY at DESC, name DESC OFFSET $2);

-- end_subscriptions: subscriptions of these JIDs to a node
DELETE FROM subscription s USING (
    SELECT x.ctid AS at_row FROM json_array_elements_text($2::json) k(value) CROSS JOIN LATERAL (
        SELECT ctid FROM subscription WHERE node_id = $1 AND left(jid, 500) = left(k.value, 500) AND jid = k.value OFFSET 0
    ) x
) k WHERE s.ctid = k.at_row;

-- drop_former: former subscribers of a deleted node that have been notified, up to a JID
DELETE FROM subscription WHERE left(jid, 500) <= left($2::text, 500) AND jid <= $2 AND node_id = (
    SELECT min(id) FROM former_node WHERE name = $1 AND telling
);

-- former_notified: no former subscriber of a deleted node needs a notice any more
UPDATE former_node SET telling = false WHERE id = (SELECT min(id) FROM former_node WHERE name = $1 AND telling);

-- add_subscription: subscriptions that were not there
INSERT INTO subscription
    (node_id, jid, account, subid, queue_requests, in_flight, last_served, available, unanswered, state, deliver, expire, remind,
     temporary, several, lock_timeout, qos, sum, quiet)
SELECT v.node_id, v.jid, v.account, v.subid, v.queue_requests, v.in_flight, v.last_served, v.available <> 0, v.unanswered,
    v.state, v.deliver <> 0, v.expire, v.remind, v.temporary <> 0, v.several, v.lock_timeout, v.qos, v.sum, v.quiet <> 0
FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::bigint[], $17::text[], $18::bigint[], $19::bigint[]
) v(node_id, jid, account, subid, queue_requests, in_flight, last_served, available, unanswered, state, deliver, expire, remind,
    temporary, several, lock_timeout, qos, sum, quiet);

-- change_subscription: windows, availability and counts of subscriptions
UPDATE subscription s SET queue_requests = v.queue_requests, in_flight = s.in_flight + v.in_flight,
    last_served = greatest(s.last_served, v.last_served), available = v.available <> 0, unanswered = v.unanswered
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[]
    ) v(queue_requests, in_flight, last_served, available, unanswered, subid)
    CROSS JOIN LATERAL (SELECT ctid FROM subscription WHERE subid = v.subid OFFSET 0) x
) v WHERE s.ctid = v.at_row;

-- change_terms: states and options of subscriptions
UPDATE subscription s SET state = v.state, deliver = v.deliver <> 0, expire = v.expire, remind = v.remind,
    temporary = v.temporary <> 0, several = v.several, lock_timeout = v.lock_timeout, qos = v.qos, sum = v.sum, quiet = v.quiet <> 0,
    subid = v.subid
FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::bigint[], $10::bigint[],
    $11::text[], $12::text[]
) v(state, deliver, expire, remind, temporary, several, lock_timeout, qos, sum, quiet, subid, was)
WHERE s.subid = v.was;

-- drop_subscription: delete subscriptions; their locks stay
DELETE FROM subscription s USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::text[]) v(subid)
    CROSS JOIN LATERAL (SELECT ctid FROM subscription WHERE subid = v.subid OFFSET 0) x
) v WHERE s.ctid = v.at_row;

-- add_resource: full JIDs become known
INSERT INTO resource (id, jid, account)
SELECT (SELECT coalesce(max(id), 0) FROM resource) + row_number() OVER (ORDER BY n.place), n.jid, n.account FROM (
    SELECT DISTINCT ON (v.jid) v.jid, v.account, v.place FROM unnest($1::text[], $2::text[]) WITH ORDINALITY v(jid, account, place)
    WHERE NOT EXISTS (SELECT 1 FROM resource r WHERE left(r.jid, 500) = left(v.jid, 500) AND r.jid = v.jid) ORDER BY v.jid, v.place
) n;

-- note_present: full JIDs have sent available presence
UPDATE resource r SET present = true FROM (
    SELECT x.ctid AS at_row FROM unnest($1::text[]) v(jid)
    CROSS JOIN LATERAL (SELECT ctid FROM resource WHERE left(jid, 500) = left(v.jid, 500) AND jid = v.jid OFFSET 0) x
) v WHERE r.ctid = v.at_row;

-- note_activity: full JIDs have shown activity
UPDATE resource r SET since = greatest(r.since, v.since), seen = greatest(r.seen, v.seen) FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[], $3::text[]) v(since, seen, jid)
    CROSS JOIN LATERAL (SELECT ctid FROM resource WHERE left(jid, 500) = left(v.jid, 500) AND jid = v.jid OFFSET 0) x
) v WHERE r.ctid = v.at_row;

-- note_able: capabilities of the clients of full JIDs
UPDATE resource r SET qos = v.able <> 0 FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::text[]) v(able, jid)
    CROSS JOIN LATERAL (SELECT ctid FROM resource WHERE left(jid, 500) = left(v.jid, 500) AND jid = v.jid OFFSET 0) x
) v WHERE r.ctid = v.at_row;

-- drop_resource: full JIDs have left
DELETE FROM resource r USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::text[]) v(jid)
    CROSS JOIN LATERAL (SELECT ctid FROM resource WHERE left(jid, 500) = left(v.jid, 500) AND jid = v.jid OFFSET 0) x
) v WHERE r.ctid = v.at_row;

-- remove_item: delete items
DELETE FROM item i USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) v(seq, node_id, state, token)
    CROSS JOIN LATERAL (SELECT ctid, node_id, state, token FROM item WHERE seq = v.seq OFFSET 0) x
    WHERE x.node_id = v.node_id AND x.state = v.state AND x.token = v.token
) v WHERE i.ctid = v.at_row;

-- park_item: give items temporary ids, which clients cannot use, until other items have released theirs
UPDATE item i SET id = chr(1) || i.seq FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[]) v(seq)
    CROSS JOIN LATERAL (SELECT ctid FROM item WHERE seq = v.seq OFFSET 0) x
) v WHERE i.ctid = v.at_row;

-- name_item: give such items their own ids
UPDATE item i SET id = v.id FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::text[], $2::bigint[]) v(id, seq)
    CROSS JOIN LATERAL (SELECT ctid FROM item WHERE seq = v.seq OFFSET 0) x
) v WHERE i.ctid = v.at_row;

-- change_lock: lock or unlock items, which keep their places
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

-- change_lock_and_turn: the same for items that got a turn, usually without other changes
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

-- change_item: all columns of items that may change
UPDATE item i SET state = v.state, due = v.due, acquired = v.acquired, failed = v.failed, released = v.released,
    holder = v.holder, deadline = v.deadline, token = greatest(i.token, v.token), avoid = v.avoid, aside = v.aside <> 0,
    taken = v.taken, node_id = v.node_id, publisher = v.publisher, published = v.published, priority = v.priority,
    expires = v.expires, headers = v.headers, death = v.death, dead_at = v.dead_at, dead_reason = v.dead_reason,
    dead_from = v.dead_from, last_holder = v.last_holder, txn_app = v.txn_app, txn_version = v.txn_version,
    group_name = v.group_name, turn = v.turn, failure = v.failure, size = v.size, sum = v.sum
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[],
    $18::bigint[], $19::bigint[], $20::text[], $21::text[], $22::text[], $23::text[], $24::bigint[],
    $25::text[], $26::bigint[], $27::text[], $28::bigint[], $29::bigint[], $30::bigint[], $31::bigint[], $32::text[],
    $33::bigint[]
) v(state, due, acquired, failed, released, holder, deadline, token, avoid,
    aside, taken, node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn,
    failure, size, sum, seq, was_in, was, had)
    CROSS JOIN LATERAL (SELECT ctid, node_id, state, token FROM item WHERE seq = v.seq OFFSET 0) x
    WHERE x.node_id = v.was_in AND x.state = v.was AND x.token = v.had
) v WHERE i.ctid = v.at_row;

-- change_wait: what items wait for, and what has come for them
UPDATE item i SET wait = v.wait FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bytea[], $2::bigint[]) v(wait, seq)
    CROSS JOIN LATERAL (SELECT ctid FROM item WHERE seq = v.seq OFFSET 0) x
) v WHERE i.ctid = v.at_row;

-- change_joins: the joins that new items count for
UPDATE item i SET joins = v.joins FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[]) v(joins, seq)
    CROSS JOIN LATERAL (SELECT ctid FROM item WHERE seq = v.seq OFFSET 0) x
) v WHERE i.ctid = v.at_row;

-- change_payload: replace payloads
UPDATE item i SET payload = v.payload FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bytea[], $2::bigint[]) v(payload, seq)
    CROSS JOIN LATERAL (SELECT ctid FROM item WHERE seq = v.seq OFFSET 0) x
) v WHERE i.ctid = v.at_row;

-- add_item: new items of the common kind, whether they wait or are locked already
INSERT INTO item
    (seq, node_id, id, state, publisher, published, priority, acquired, holder, deadline, token, taken, size, sum, payload)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bytea[]
);

-- add_waiting_item: new items of the common kind that were never locked
INSERT INTO item (seq, node_id, id, state, publisher, published, priority, size, sum, payload)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[]
);

-- add_any_item: new items with all their columns
INSERT INTO item (
    state, due, acquired, failed, released, holder, deadline, token, avoid, aside, taken,
    node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, size, sum, seq, id,
    payload
) SELECT
    v.state, v.due, v.acquired, v.failed, v.released, v.holder, v.deadline, v.token, v.avoid, v.aside <> 0, v.taken,
    v.node_id, v.publisher, v.published, v.priority, v.expires, v.headers,
    v.death, v.dead_at, v.dead_reason, v.dead_from, v.last_holder, v.txn_app, v.txn_version, v.group_name, v.turn,
    v.failure, v.size, v.sum, v.seq, v.id, v.payload
FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[],
    $18::bigint[], $19::bigint[], $20::text[], $21::text[], $22::text[], $23::text[], $24::bigint[],
    $25::text[], $26::bigint[], $27::text[], $28::bigint[], $29::bigint[], $30::bigint[], $31::text[], $32::bytea[]
) v(state, due, acquired, failed, released, holder, deadline, token, avoid,
    aside, taken, node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, size, sum, seq, id, payload);

-- note_sum: the checksums of items that have none
UPDATE item i SET sum = v.sum FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[]) v(sum, seq)
    CROSS JOIN LATERAL (SELECT ctid, sum FROM item WHERE seq = v.seq OFFSET 0) x WHERE x.sum IS NULL
) v WHERE i.ctid = v.at_row;

-- note_sum_of_done: the same of done items
UPDATE done_item d SET sum = v.sum FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[]) v(sum, seq)
    CROSS JOIN LATERAL (SELECT ctid, sum FROM done_item WHERE seq = v.seq OFFSET 0) x WHERE x.sum IS NULL
) v WHERE d.ctid = v.at_row;

-- keep_item: keep done items with their payloads, and delete them from their queues
INSERT INTO done_item
    (seq, node_id, id, publisher, published, priority, token, done_at, expires, headers, txn_app, txn_version, group_name, size, sum, acquired, failed, delivered, worker, payload)
SELECT v.*, x.payload FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::text[], $11::text[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::text[]
) v(seq, node_id, id, publisher, published, priority, token, done_at, expires, headers, txn_app, txn_version, group_name, size, sum,
    acquired, failed, delivered, worker)
CROSS JOIN LATERAL (SELECT payload FROM item WHERE seq = v.seq OFFSET 0) x;

-- add_done_item: keep done items that were not stored before
INSERT INTO done_item
    (seq, node_id, id, publisher, published, priority, token, done_at, expires, headers, txn_app, txn_version, group_name, size, sum, acquired, failed, delivered, worker, payload)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::text[], $11::text[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[],
    $19::text[], $20::bytea[]
);

-- revive_item: requeue done items with their payloads, and delete them from the done ones
INSERT INTO item (
    state, due, acquired, failed, released, holder, deadline, token, avoid, aside, taken,
    node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, size, sum, seq, id,
    payload
) SELECT
    v.state, v.due, v.acquired, v.failed, v.released, v.holder, v.deadline, v.token, v.avoid, v.aside <> 0, v.taken,
    v.node_id, v.publisher, v.published, v.priority, v.expires, v.headers,
    v.death, v.dead_at, v.dead_reason, v.dead_from, v.last_holder, v.txn_app, v.txn_version, v.group_name, v.turn,
    v.failure, v.size, v.sum, v.seq, v.id, x.payload
FROM unnest(
    $1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[],
    $18::bigint[], $19::bigint[], $20::text[], $21::text[], $22::text[], $23::text[], $24::bigint[],
    $25::text[], $26::bigint[], $27::text[], $28::bigint[], $29::bigint[], $30::bigint[], $31::text[]
) v(state, due, acquired, failed, released, holder, deadline, token, avoid,
    aside, taken, node_id, publisher, published, priority, expires, headers,
    death, dead_at, dead_reason, dead_from, last_holder, txn_app, txn_version, group_name, turn, failure, size, sum, seq, id)
CROSS JOIN LATERAL (SELECT payload FROM done_item WHERE seq = v.seq OFFSET 0) x;

-- drop_done_item: delete done items
DELETE FROM done_item d USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) v(seq, node_id, done_at)
    CROSS JOIN LATERAL (SELECT ctid, node_id, done_at FROM done_item WHERE seq = v.seq OFFSET 0) x
    WHERE x.node_id = v.node_id AND x.done_at = v.done_at
) v WHERE d.ctid = v.at_row;

-- take_place: items take the places of those that they overwrite
INSERT INTO overwritten (seq, contents_id, place)
SELECT v.seq, v.contents, coalesce((SELECT o.place FROM overwritten o WHERE o.seq = v.old), v.old)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) v(seq, contents, old);

-- drop_place: delete the places of removed items
DELETE FROM overwritten o USING unnest($1::bigint[]) v(seq) WHERE o.seq = v.seq;

-- drop_receipts: delete the former holders of redriven items
DELETE FROM receipt r USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[]) v(seq)
    CROSS JOIN LATERAL (SELECT ctid FROM receipt WHERE seq = v.seq OFFSET 0) x
) v WHERE r.ctid = v.at_row;

-- add_receipt: the former holder of an item that still exists
INSERT INTO receipt (seq, jid) SELECT i.seq, v.jid FROM unnest($1::bigint[], $2::text[]) v(seq, jid)
CROSS JOIN LATERAL (SELECT seq FROM item WHERE seq = v.seq OFFSET 0) i
ON CONFLICT DO NOTHING;

-- add_finished: ids of finished work, which absorb a re-publish until a time
INSERT INTO finished (digest, until, node_id, id) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[]);

-- change_finished: replace the payload or the time of such ids
UPDATE finished f SET digest = v.digest, until = v.until
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
        $1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[], $6::bigint[]
    ) v(digest, until, node_id, id, was, was_until)
    CROSS JOIN LATERAL (SELECT ctid, digest, until FROM finished WHERE node_id = v.node_id AND id = v.id OFFSET 0) x
    WHERE x.digest = v.was AND x.until = v.was_until
) v WHERE f.ctid = v.at_row;

-- drop_finished: delete such ids
DELETE FROM finished f USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bigint[]) v(node_id, id, was, was_until)
    CROSS JOIN LATERAL (SELECT ctid, digest, until FROM finished WHERE node_id = v.node_id AND id = v.id OFFSET 0) x
    WHERE x.digest = v.was AND x.until = v.was_until
) v WHERE f.ctid = v.at_row;

-- add_settled: records of settled locks, with the time to delete them
INSERT INTO settled (whose, verdict, until, token) SELECT * FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[]);

-- change_settled: replace an outdated record
UPDATE settled s SET whose = v.whose, verdict = v.verdict, until = v.until
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
        $1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]
    ) v(whose, verdict, until, token, was_until)
    CROSS JOIN LATERAL (SELECT ctid, until FROM settled WHERE token = v.token OFFSET 0) x
    WHERE x.until = v.was_until
) v WHERE s.ctid = v.at_row;

-- drop_settled: delete records of settled locks
DELETE FROM settled s USING (
    SELECT x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[]) v(token, was_until)
    CROSS JOIN LATERAL (SELECT ctid, until FROM settled WHERE token = v.token OFFSET 0) x
    WHERE x.until = v.was_until
) v WHERE s.ctid = v.at_row;

-- forget_settled: delete outdated records of locks, the longest overdue first
DELETE FROM settled s USING (
    SELECT ctid AS at_row FROM settled WHERE until <= $1 ORDER BY until LIMIT $2
) v WHERE s.ctid = v.at_row;

-- add_answered: answers to deliveries of other instances
INSERT INTO answered (arrived, until, token) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]);

-- change_answered: answers to the next step of such deliveries
UPDATE answered a SET arrived = v.arrived, until = v.until FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) v(arrived, until, token, was)
    CROSS JOIN LATERAL (SELECT ctid, arrived FROM answered WHERE token = v.token OFFSET 0) x
    WHERE x.arrived = v.was
) v WHERE a.ctid = v.at_row;

-- drop_answered: delete such answers
DELETE FROM answered a USING (
    SELECT x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[]) v(token, was)
    CROSS JOIN LATERAL (SELECT ctid, arrived FROM answered WHERE token = v.token OFFSET 0) x
    WHERE x.arrived = v.was
) v WHERE a.ctid = v.at_row;

-- forget_answered: delete answers whose locks have ended, the longest overdue first
DELETE FROM answered a USING (
    SELECT ctid AS at_row FROM answered WHERE until <= $1 ORDER BY until LIMIT $2
) v WHERE a.ctid = v.at_row;

-- add_ping_answer: answers to pings of other instances
INSERT INTO ping_answer (at, until, jid) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]);

-- change_ping_answer: newer answers of the same JIDs
UPDATE ping_answer p SET at = v.at, until = v.until FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) v(at, until, jid, was_at)
    CROSS JOIN LATERAL (
        SELECT ctid, at FROM ping_answer WHERE left(jid, 500) = left(v.jid, 500) AND jid = v.jid OFFSET 0
    ) x
    WHERE x.at = v.was_at
) v WHERE p.ctid = v.at_row;

-- drop_ping_answer: delete such answers
DELETE FROM ping_answer p USING (
    SELECT x.ctid AS at_row FROM unnest($1::text[], $2::bigint[]) v(jid, was_at)
    CROSS JOIN LATERAL (
        SELECT ctid, at FROM ping_answer WHERE left(jid, 500) = left(v.jid, 500) AND jid = v.jid OFFSET 0
    ) x
    WHERE x.at = v.was_at
) v WHERE p.ctid = v.at_row;

-- forget_ping_answers: delete outdated answers, the longest overdue first
DELETE FROM ping_answer p USING (
    SELECT ctid AS at_row FROM ping_answer WHERE until <= $1 ORDER BY until LIMIT $2
) v WHERE p.ctid = v.at_row;

-- add_used_key: keys of publishes, with the time to delete them
INSERT INTO used_key (account, content, until, size, ids, known, mark)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[]);

-- change_used_key: replace an outdated key
UPDATE used_key u SET account = v.account, content = v.content, until = v.until, size = v.size, ids = v.ids, known = v.known
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
        $1::text[], $2::bytea[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[]
    ) v(account, content, until, size, ids, known, mark, was_until)
    CROSS JOIN LATERAL (SELECT ctid, until FROM used_key WHERE mark = v.mark OFFSET 0) x
    WHERE x.until = v.was_until
) v WHERE u.ctid = v.at_row;

-- drop_used_key: delete keys
DELETE FROM used_key u USING (
    SELECT x.ctid AS at_row FROM unnest($1::text[], $2::bigint[]) v(mark, was_until)
    CROSS JOIN LATERAL (SELECT ctid, until FROM used_key WHERE mark = v.mark OFFSET 0) x
    WHERE x.until = v.was_until
) v WHERE u.ctid = v.at_row;

-- forget_used_keys: delete outdated keys, the longest overdue first, and the total of each
DELETE FROM used_key u USING (
    SELECT ctid AS at_row FROM used_key WHERE until <= $1 ORDER BY until LIMIT $2
) v WHERE u.ctid = v.at_row RETURNING u.account, u.size;

-- add_key_total: the first keys of accounts
INSERT INTO key_total (bytes, account) SELECT * FROM unnest($1::bigint[], $2::text[]);

-- change_key_total: the totals of accounts' keys
UPDATE key_total t SET bytes = v.bytes
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::text[], $3::bigint[]) v(bytes, account, was_bytes)
    CROSS JOIN LATERAL (SELECT ctid, bytes FROM key_total WHERE account = v.account OFFSET 0) x
    WHERE x.bytes = v.was_bytes
) v WHERE t.ctid = v.at_row;

-- drop_key_total: delete the totals of accounts without keys
DELETE FROM key_total t USING (
    SELECT x.ctid AS at_row FROM unnest($1::text[], $2::bigint[]) v(account, was_bytes)
    CROSS JOIN LATERAL (SELECT ctid, bytes FROM key_total WHERE account = v.account OFFSET 0) x
    WHERE x.bytes = v.was_bytes
) v WHERE t.ctid = v.at_row;

-- free_keys: lower the key totals of accounts
UPDATE key_total t SET bytes = t.bytes - v.size
FROM (
    SELECT v.size, x.ctid AS at_row FROM unnest($1::bigint[], $2::text[]) v(size, account)
    CROSS JOIN LATERAL (SELECT ctid FROM key_total WHERE account = v.account OFFSET 0) x
) v WHERE t.ctid = v.at_row;

-- drop_free_keys: delete totals of accounts without keys
DELETE FROM key_total t USING (
    SELECT x.ctid AS at_row FROM unnest($1::text[]) v(account)
    CROSS JOIN LATERAL (SELECT ctid, bytes FROM key_total WHERE account = v.account OFFSET 0) x
    WHERE x.bytes = 0
) v WHERE t.ctid = v.at_row;

-- add_kept_message: store messages
INSERT INTO kept_message (sender, account, msg_id, iq_id, digest, byte_count, held, answer, until, message, mark)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[], $8::text[], $9::bigint[], $10::bytea[], $11::text[]
);

-- change_kept_message: end messages, or replace those with the same ids
UPDATE kept_message m SET sender = v.sender, account = v.account, msg_id = v.msg_id, iq_id = v.iq_id, digest = v.digest, byte_count = v.byte_count,
    held = v.held, answer = v.answer, until = v.until, message = v.message
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[], $8::text[], $9::bigint[], $10::bytea[], $11::text[],
        $12::bytea[], $13::bigint[], $14::bigint[]
    ) v(sender, account, msg_id, iq_id, digest, byte_count, held, answer, until, message, mark, was_digest, was_held, was_until)
    CROSS JOIN LATERAL (SELECT ctid, digest, held, until FROM kept_message WHERE mark = v.mark OFFSET 0) x
    WHERE x.digest = v.was_digest AND x.held = v.was_held AND x.until = v.was_until
) v WHERE m.ctid = v.at_row;

-- drop_kept_message: delete messages, or answers to their deliveries
DELETE FROM kept_message m USING (
    SELECT x.ctid AS at_row FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[]) v(mark, was_digest, was_held, was_until)
    CROSS JOIN LATERAL (SELECT ctid, digest, held, until FROM kept_message WHERE mark = v.mark OFFSET 0) x
    WHERE x.digest = v.was_digest AND x.held = v.was_held AND x.until = v.was_until
) v WHERE m.ctid = v.at_row;

-- add_message_total: the first kept messages of accounts
INSERT INTO message_total (messages, byte_count, remembered, account)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]);

-- change_message_total: the totals of accounts' kept messages
UPDATE message_total t SET messages = v.messages, byte_count = v.byte_count, remembered = v.remembered
FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]
    ) v(messages, byte_count, remembered, account, was_messages, was_byte_count, was_remembered)
    CROSS JOIN LATERAL (SELECT ctid, messages, byte_count, remembered FROM message_total WHERE account = v.account OFFSET 0) x
    WHERE x.messages = v.was_messages AND x.byte_count = v.was_byte_count AND x.remembered = v.was_remembered
) v WHERE t.ctid = v.at_row;

-- drop_message_total: delete the totals of accounts without kept messages
DELETE FROM message_total t USING (
    SELECT x.ctid AS at_row FROM unnest(
        $1::text[], $2::bigint[], $3::bigint[], $4::bigint[]
    ) v(account, was_messages, was_byte_count, was_remembered)
    CROSS JOIN LATERAL (SELECT ctid, messages, byte_count, remembered FROM message_total WHERE account = v.account OFFSET 0) x
    WHERE x.messages = v.was_messages AND x.byte_count = v.was_byte_count AND x.remembered = v.was_remembered
) v WHERE t.ctid = v.at_row;

-- new_contents: a number that no node has, now or later
INSERT INTO contents (id, node_id) SELECT greatest(1099511627776, 1 + max(id)), $1::bigint FROM contents;

-- forget: delete some of these
DELETE FROM finished f USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::text[]) v(node_id, id)
    CROSS JOIN LATERAL (SELECT ctid FROM finished WHERE node_id = v.node_id AND id = v.id OFFSET 0) x
) v WHERE f.ctid = v.at_row;

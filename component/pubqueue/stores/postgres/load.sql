-- Rows by their keys. The keys are passed as JSON: a list, or an object with a list for each node's id, so that one
-- constant statement works for any number of them. First the keys, then for each its rows by the index: LATERAL and OFFSET 0 force this, because
-- PostgreSQL would walk the whole table instead if that was empty when it was last analysed (schema.SETTINGS). %(item)s are the columns of an item.

-- node_ids: the ids of nodes by their names
SELECT n.name, n.id FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM node WHERE name = k.value OFFSET 0) n;

-- node_names: the names of nodes by their ids
SELECT n.name, n.id FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM node WHERE id = k.value::bigint OFFSET 0) n;

-- contents_of: the ids of nodes' contents, by the names of the nodes
SELECT n.name, c.id FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM node WHERE name = k.value OFFSET 0) n
CROSS JOIN LATERAL (SELECT * FROM contents WHERE node_id = n.id OFFSET 0) c;

-- nodes_holding: the names of nodes by the ids of their contents
SELECT n.name, c.id FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM contents WHERE id = k.value::bigint OFFSET 0) c
CROSS JOIN LATERAL (SELECT * FROM node WHERE id = c.node_id OFFSET 0) n;

-- nodes: nodes by their names, with the ids of their contents
SELECT %(node)s, c.id
FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM node WHERE name = k.value OFFSET 0) n
CROSS JOIN LATERAL (SELECT * FROM contents WHERE node_id = n.id OFFSET 0) c;

-- affiliations: the affiliations of accounts with nodes
SELECT a.node_id, a.jid, a.affiliation, a.sum FROM json_each($1::json) n CROSS JOIN json_array_elements_text(n.value) k(value)
CROSS JOIN LATERAL (SELECT * FROM affiliation WHERE node_id = n.key::bigint AND jid = k.value OFFSET 0) a;

-- subscriptions: those of accounts to nodes
SELECT %(subscription)s
FROM json_each($1::json) n CROSS JOIN json_array_elements_text(n.value) k(value)
CROSS JOIN LATERAL (SELECT * FROM subscription WHERE account = k.value AND node_id = n.key::bigint OFFSET 0) s;

-- subscribers: all subscriptions to nodes
SELECT %(subscription)s
FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM subscription WHERE node_id = k.value::bigint OFFSET 0) s;

-- accounts: all subscriptions of accounts
SELECT %(subscription)s
FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM subscription WHERE account = k.value OFFSET 0) s
CROSS JOIN LATERAL (SELECT * FROM node WHERE id = s.node_id OFFSET 0) n;

-- jids: all subscriptions of exactly these JIDs
SELECT %(subscription)s
FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM subscription WHERE left(jid, 500) = left(k.value, 500) AND jid = k.value OFFSET 0) s
CROSS JOIN LATERAL (SELECT * FROM node WHERE id = s.node_id OFFSET 0) n;

-- resources: the known full JIDs of accounts
SELECT r.jid, r.since, r.seen, r.qos, r.present FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM resource WHERE account = k.value OFFSET 0) r ORDER BY r.id;

-- people: the accounts and full JIDs, of those given, with an affiliation, a subscription or a held item
SELECT k.value FROM json_array_elements_text($1::json) k(value)
LEFT JOIN LATERAL (SELECT true AS found FROM affiliation WHERE jid = k.value LIMIT 1) a ON true
LEFT JOIN LATERAL (SELECT true AS found FROM subscription WHERE account = k.value LIMIT 1) s ON true
LEFT JOIN LATERAL (
    SELECT true AS found FROM item WHERE left(holder, 500) = left(k.value, 500) AND holder = k.value LIMIT 1
) i ON true
WHERE coalesce(a.found, s.found, i.found);

-- items: items by node and id
SELECT %(item)s FROM json_each($1::json) n CROSS JOIN json_array_elements_text(n.value) k(value)
CROSS JOIN LATERAL (SELECT * FROM item WHERE node_id = n.key::bigint AND id = k.value OFFSET 0) i;

-- numbers: items by their numbers
SELECT %(item)s FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = k.value::bigint OFFSET 0) i;

-- held: some of the items that are locked to exactly these JIDs
SELECT %(item)s FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (
    SELECT h.* FROM (SELECT * FROM item WHERE left(holder, 500) = left(k.value, 500) AND holder = k.value OFFSET 0) h
    CROSS JOIN LATERAL (SELECT FROM contents WHERE id = h.node_id AND node_id IS NOT NULL OFFSET 0) c LIMIT $2
) i;

-- payloads: payloads as they were published, by the items' numbers; items that a batch revives are still among the done ones
SELECT i.seq, i.payload, i.sum FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = k.value::bigint OFFSET 0) i
UNION ALL SELECT d.seq, d.payload, d.sum FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM done_item WHERE seq = k.value::bigint OFFSET 0) d;

-- receipts: the former holders of items
SELECT r.seq, r.jid FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM receipt WHERE seq = k.value::bigint OFFSET 0) r;

-- finished: ids of finished work
SELECT f.node_id, f.id, f.digest, f.until FROM json_each($1::json) n CROSS JOIN json_array_elements_text(n.value) k(value)
CROSS JOIN LATERAL (SELECT * FROM finished WHERE node_id = n.key::bigint AND id = k.value OFFSET 0) f;

-- seeks: queues with a seek under way
SELECT s.node_id, s.since, s.at, s.through FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM seek WHERE node_id = k.value::bigint OFFSET 0) s;

-- settled: locks that were settled, by their tokens
SELECT s.token, s.whose, s.verdict, s.until FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM settled WHERE token = k.value::bigint OFFSET 0) s;

-- answered_deliveries: answers to deliveries of other instances, by lock tokens
SELECT a.token, a.arrived, a.until FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM answered WHERE token = k.value::bigint OFFSET 0) a;

-- ping_answers: when JIDs last answered a ping of another instance
SELECT p.jid, p.at, p.until FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM ping_answer WHERE left(jid, 500) = left(k.value, 500) AND jid = k.value OFFSET 0) p;

-- used_keys: keys of publishes, by their digests
SELECT u.mark, u.account, u.content, u.until, u.size, u.ids, u.known FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM used_key WHERE mark = k.value OFFSET 0) u;

-- key_totals: the totals of accounts' keys
SELECT t.account, t.bytes FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM key_total WHERE account = k.value OFFSET 0) t;

-- kept_messages: messages of assured service, by their keys, without their bytes
SELECT m.mark, m.sender, m.account, m.msg_id, m.iq_id, m.digest, m.byte_count, m.held, m.answer, m.until
FROM json_array_elements_text($1::json) k(value) CROSS JOIN LATERAL (SELECT * FROM kept_message WHERE mark = k.value OFFSET 0) m;

-- message_totals: the totals of kept messages, by account
SELECT t.account, t.messages, t.byte_count, t.remembered FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM message_total WHERE account = k.value OFFSET 0) t;

-- apps: writers of transactions: by name, and by the half of the checksum that is about the name; names can be chosen that share it, so some of them
SELECT k.value->>0, p.name, p.owner, p.version, p.committed, p.used, p.sum FROM json_array_elements($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM txn_app WHERE name = k.value->>0 OFFSET 0) p
UNION ALL SELECT k.value->>0, p.name, p.owner, p.version, p.committed, p.used, p.sum FROM json_array_elements($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM txn_app WHERE sum >> 32 = (k.value->>1)::bigint LIMIT 16) p;

-- versions: versions by app and number, open or not: in a damaged row nothing says that it is
SELECT p.name, t.items, t.bytes, t.app_id, t.version, t.owner, t.immediate, t.began, t.until, t.committed, t.on_taken, t.dead_letter_node, t.sum
FROM json_array_elements($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM txn_app WHERE name = k.value->>0 OFFSET 0) p
CROSS JOIN LATERAL (SELECT * FROM txn WHERE app_id = p.id AND version = (k.value->>1)::bigint OFFSET 0) t;

-- attempts: attempts at parts of open versions
SELECT p.name, t.version, a.part, a.number, a.items, a.bytes, a.known, a.grouped FROM json_array_elements($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM txn_app WHERE name = k.value->>0 OFFSET 0) p
CROSS JOIN LATERAL (SELECT * FROM txn WHERE app_id = p.id AND version = (k.value->>1)::bigint AND committed IS NULL OFFSET 0) t
CROSS JOIN LATERAL (SELECT * FROM attempt WHERE txn_id = t.id AND part = (k.value->>2)::bigint AND number = (k.value->>3)::bigint OFFSET 0) a;

-- waiting: the totals of staged items, by account
SELECT u.account, u.items, u.bytes FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM staged_usage WHERE account = k.value OFFSET 0) u;

-- staged: the sizes of staged items: by app, version, part and attempt an object of nodes with ids
SELECT p.name, t.version, a.part, a.number, s.node, s.id, s.size FROM json_array_elements($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM txn_app WHERE name = k.value->>0 OFFSET 0) p
CROSS JOIN LATERAL (SELECT * FROM txn WHERE app_id = p.id AND version = (k.value->>1)::bigint AND committed IS NULL OFFSET 0) t
CROSS JOIN LATERAL (SELECT * FROM attempt WHERE txn_id = t.id AND part = (k.value->>2)::bigint AND number = (k.value->>3)::bigint OFFSET 0) a
CROSS JOIN json_each(k.value->4) n CROSS JOIN json_array_elements_text(n.value) m(value)
CROSS JOIN LATERAL (SELECT * FROM staged WHERE txn_id = t.id AND node = n.key AND id = m.value AND attempt_id = a.id OFFSET 0) s;

-- noted: the ids that attempts at open versions have recorded: by app and version an object of nodes with ids
SELECT p.name, t.version, s.node, s.id, s.payload, s.known FROM json_array_elements($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM txn_app WHERE name = k.value->>0 OFFSET 0) p
CROSS JOIN LATERAL (SELECT * FROM txn WHERE app_id = p.id AND version = (k.value->>1)::bigint AND committed IS NULL OFFSET 0) t
CROSS JOIN json_each(k.value->2) n CROSS JOIN json_array_elements_text(n.value) m(value)
CROSS JOIN LATERAL (SELECT * FROM staged WHERE txn_id = t.id AND node = n.key AND id = m.value OFFSET 0) s;

-- holdings: what accounts have created: nodes, items, and the bytes of items and of done items
SELECT k.value, x.nodes, x.items, x.bytes FROM json_array_elements_text($1::json) k(value) CROSS JOIN LATERAL (
    SELECT count(*) AS nodes, coalesce(sum(items), 0)::bigint AS items, coalesce(sum(bytes + done_bytes), 0)::bigint AS bytes
    FROM node WHERE creator = k.value OFFSET 0
) x WHERE x.nodes > 0;

-- ready: the next items of a node to deliver, and as many of those set aside, each read in the order of its partial
-- index, after a priority and a place; up to a number of bytes of payload and one more item. In two parts, because one condition
-- would walk all of a priority. A limited number of places is examined; expired items are skipped.
SELECT %(item)s, i.payload FROM (
    SELECT p.*, sum(p.size) OVER (ORDER BY p.aside, p.priority DESC, p.place) - p.size AS before FROM (
        (SELECT q.seq, q.place, q.priority, q.aside, octet_length(q.payload) AS size FROM (
            SELECT l.* FROM (
                (SELECT *, %(place)s AS place FROM item
                 WHERE node_id = $1 AND %(ready)s AND priority = $5 AND %(place)s > $6 ORDER BY %(place)s LIMIT $4)
                UNION ALL
                (SELECT *, %(place)s AS place FROM item WHERE node_id = $1 AND %(ready)s AND priority < $5
                 ORDER BY priority DESC, %(place)s LIMIT $4)
            ) l LIMIT $4
        ) q WHERE q.expires IS NULL OR q.expires > $2 LIMIT $3)
        UNION ALL
        (SELECT q.seq, q.place, q.priority, q.aside, octet_length(q.payload) AS size FROM (
            SELECT l.* FROM (
                (SELECT *, %(place)s AS place FROM item
                 WHERE node_id = $1 AND aside AND priority = $7 AND %(place)s > $8 ORDER BY %(place)s LIMIT $4)
                UNION ALL
                (SELECT *, %(place)s AS place FROM item WHERE node_id = $1 AND aside AND priority < $7
                 ORDER BY priority DESC, %(place)s LIMIT $4)
            ) l LIMIT $4
        ) q WHERE q.expires IS NULL OR q.expires > $2 LIMIT $3)
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = f.seq OFFSET 0) i
WHERE f.before <= greatest($9, 0) ORDER BY f.aside, f.priority DESC, f.place;

-- ready_of_size: the same, only payloads up to a size; others are skipped as if they had expired
SELECT %(item)s, i.payload FROM (
    SELECT p.*, sum(p.size) OVER (ORDER BY p.aside, p.priority DESC, p.place) - p.size AS before FROM (
        (SELECT q.seq, q.place, q.priority, q.aside, octet_length(q.payload) AS size FROM (
            SELECT l.* FROM (
                (SELECT *, %(place)s AS place FROM item
                 WHERE node_id = $1 AND %(ready)s AND priority = $5 AND %(place)s > $6 ORDER BY %(place)s LIMIT $4)
                UNION ALL
                (SELECT *, %(place)s AS place FROM item WHERE node_id = $1 AND %(ready)s AND priority < $5
                 ORDER BY priority DESC, %(place)s LIMIT $4)
            ) l LIMIT $4
        ) q WHERE (q.expires IS NULL OR q.expires > $2) AND octet_length(q.payload) <= $9 LIMIT $3)
        UNION ALL
        (SELECT q.seq, q.place, q.priority, q.aside, octet_length(q.payload) AS size FROM (
            SELECT l.* FROM (
                (SELECT *, %(place)s AS place FROM item
                 WHERE node_id = $1 AND aside AND priority = $7 AND %(place)s > $8 ORDER BY %(place)s LIMIT $4)
                UNION ALL
                (SELECT *, %(place)s AS place FROM item WHERE node_id = $1 AND aside AND priority < $7
                 ORDER BY priority DESC, %(place)s LIMIT $4)
            ) l LIMIT $4
        ) q WHERE (q.expires IS NULL OR q.expires > $2) AND octet_length(q.payload) <= $9 LIMIT $3)
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = f.seq OFFSET 0) i
WHERE f.before <= greatest($10, 0) ORDER BY f.aside, f.priority DESC, f.place;

-- ready_alone: the same, and of the queued items only those without a group
SELECT %(item)s, i.payload FROM (
    SELECT p.*, sum(p.size) OVER (ORDER BY p.aside, p.priority DESC, p.place) - p.size AS before FROM (
        (SELECT q.seq, q.place, q.priority, q.aside, octet_length(q.payload) AS size FROM (
            SELECT l.* FROM (
                (SELECT *, %(place)s AS place FROM item
                 WHERE node_id = $1 AND %(ready)s AND priority = $5 AND %(place)s > $6 ORDER BY %(place)s LIMIT $4)
                UNION ALL
                (SELECT *, %(place)s AS place FROM item WHERE node_id = $1 AND %(ready)s AND priority < $5
                 ORDER BY priority DESC, %(place)s LIMIT $4)
            ) l LIMIT $4
        ) q WHERE (q.expires IS NULL OR q.expires > $2) AND octet_length(q.payload) <= $9 AND q.group_name IS NULL LIMIT $3)
        UNION ALL
        (SELECT q.seq, q.place, q.priority, q.aside, octet_length(q.payload) AS size FROM (
            SELECT l.* FROM (
                (SELECT *, %(place)s AS place FROM item
                 WHERE node_id = $1 AND aside AND priority = $7 AND %(place)s > $8 ORDER BY %(place)s LIMIT $4)
                UNION ALL
                (SELECT *, %(place)s AS place FROM item WHERE node_id = $1 AND aside AND priority < $7
                 ORDER BY priority DESC, %(place)s LIMIT $4)
            ) l LIMIT $4
        ) q WHERE (q.expires IS NULL OR q.expires > $2) AND octet_length(q.payload) <= $9 LIMIT $3)
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = f.seq OFFSET 0) i
WHERE f.before <= greatest($10, 0) ORDER BY f.aside, f.priority DESC, f.place;

-- ready_places: the places of the next items of many nodes
SELECT r.* FROM json_array_elements_text($1::json) k(value) CROSS JOIN LATERAL (
    (SELECT q.node_id, q.aside, -q.priority, coalesce(q.turn, q.seq), q.seq, octet_length(q.payload) FROM (
        SELECT * FROM item WHERE node_id = k.value::bigint AND %(ready)s ORDER BY priority DESC, %(place)s LIMIT $4
     ) q WHERE q.expires IS NULL OR q.expires > $2 LIMIT $3)
    UNION ALL
    (SELECT q.node_id, q.aside, -q.priority, coalesce(q.turn, q.seq), q.seq, octet_length(q.payload) FROM (
        SELECT * FROM item WHERE node_id = k.value::bigint AND aside ORDER BY priority DESC, %(place)s LIMIT $4
     ) q WHERE q.expires IS NULL OR q.expires > $2 LIMIT $3)
) r;

-- ready_ends: the last of a number of places of nodes, of queued items and of those set aside, if there are that many
SELECT e.* FROM json_array_elements($1::json) k(value) CROSS JOIN LATERAL (
    (SELECT l.node_id, l.aside, -l.priority, l.place FROM (
        (SELECT node_id, aside, priority, %(place)s AS place FROM item WHERE node_id = (k.value->>0)::bigint AND %(ready)s
            AND priority = (k.value->>1)::bigint AND %(place)s > (k.value->>2)::bigint ORDER BY %(place)s LIMIT $2)
        UNION ALL
        (SELECT node_id, aside, priority, %(place)s FROM item WHERE node_id = (k.value->>0)::bigint AND %(ready)s
            AND priority < (k.value->>1)::bigint ORDER BY priority DESC, %(place)s LIMIT $2)
     ) l LIMIT 1 OFFSET $2 - 1)
    UNION ALL
    (SELECT l.node_id, l.aside, -l.priority, l.place FROM (
        (SELECT node_id, aside, priority, %(place)s AS place FROM item WHERE node_id = (k.value->>0)::bigint AND aside
            AND priority = (k.value->>3)::bigint AND %(place)s > (k.value->>4)::bigint ORDER BY %(place)s LIMIT $2)
        UNION ALL
        (SELECT node_id, aside, priority, %(place)s FROM item WHERE node_id = (k.value->>0)::bigint AND aside
            AND priority < (k.value->>3)::bigint ORDER BY priority DESC, %(place)s LIMIT $2)
     ) l LIMIT 1 OFFSET $2 - 1)
) e;

-- ready_items: items with their payloads, by their numbers
SELECT %(item)s, i.payload FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = k.value::bigint OFFSET 0) i;

-- next_due: when the next lock, pause, lifetime or staged version ends, or a schedule is due, or 0 if there is something to sweep;
-- each part reads one end of one index
SELECT min(m.moment) FROM (
    SELECT min(deadline) AS moment FROM item WHERE state = 'locked'
    UNION ALL SELECT min(due) FROM item WHERE state = 'delayed'
    UNION ALL SELECT min(due) FROM item WHERE state = 'held' AND due IS NOT NULL
    UNION ALL SELECT min(expires) FROM item WHERE expires IS NOT NULL AND state IN ('queued', 'delayed', 'held')
    UNION ALL SELECT min(until) FROM txn WHERE committed IS NULL
    UNION ALL SELECT min(due) FROM schedule WHERE due IS NOT NULL
    UNION ALL SELECT * FROM (
        SELECT coalesce(s.remind, s.expire) FROM subscription s JOIN node n ON n.id = s.node_id
        WHERE s.expire IS NOT NULL ORDER BY coalesce(s.remind, s.expire) LIMIT 1
    ) l
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM attempt WHERE txn_id IS NULL)
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM contents WHERE node_id IS NULL)
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM former_node WHERE NOT telling)
) m;

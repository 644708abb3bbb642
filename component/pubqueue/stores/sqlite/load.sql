-- Rows by their keys. The keys are passed as JSON: a list, or an object with a list for each node's id, so that one
-- constant statement works for any number of them. CROSS JOIN keeps the order: first the keys, then the table
-- by its index. %(item)s are the columns of an item, %(ready)s is the condition that it
-- can be delivered, and %(place)s its place then.

-- node_ids: the ids of nodes by their names
SELECT n.name, n.id FROM json_each(?) k CROSS JOIN node n ON n.name = k.value;

-- node_names: the names of nodes by their ids
SELECT n.name, n.id FROM json_each(?) k CROSS JOIN node n ON n.id = k.value;

-- contents_of: the ids of nodes' contents, by the names of the nodes
SELECT n.name, c.id FROM json_each(?) k CROSS JOIN node n ON n.name = k.value CROSS JOIN contents c ON c.node_id = n.id;

-- nodes_holding: the names of nodes by the ids of their contents
SELECT n.name, c.id FROM json_each(?) k CROSS JOIN contents c ON c.id = k.value CROSS JOIN node n ON n.id = c.node_id;

-- nodes: nodes by their names, with the ids of their contents
SELECT %(node)s, c.id
FROM json_each(?) k CROSS JOIN node n ON n.name = k.value CROSS JOIN contents c ON c.node_id = n.id;

-- affiliations: the affiliations of accounts with nodes
SELECT a.node_id, a.jid, a.affiliation, a.sum FROM json_each(?) n CROSS JOIN json_each(n.value) k
CROSS JOIN affiliation a ON a.node_id = CAST(n.key AS INTEGER) AND a.jid = k.value;

-- subscriptions: those of accounts to nodes
SELECT %(subscription)s
FROM json_each(?) n CROSS JOIN json_each(n.value) k
CROSS JOIN subscription s ON s.account = k.value AND s.node_id = CAST(n.key AS INTEGER);

-- subscribers: all subscriptions to nodes
SELECT %(subscription)s
FROM json_each(?) k CROSS JOIN subscription s ON s.node_id = k.value;

-- accounts: all subscriptions of accounts
SELECT %(subscription)s
FROM json_each(?) k CROSS JOIN subscription s ON s.account = k.value CROSS JOIN node n ON n.id = s.node_id;

-- jids: all subscriptions of exactly these JIDs
SELECT %(subscription)s
FROM json_each(?) k CROSS JOIN subscription s ON s.jid = k.value CROSS JOIN node n ON n.id = s.node_id;

-- resources: the known full JIDs of accounts
SELECT r.jid, r.since, r.seen, r.qos, r.present FROM json_each(?) k CROSS JOIN resource r ON r.account = k.value ORDER BY r.id;

-- people: the accounts and full JIDs, of those given, with an affiliation, a subscription or a held item
SELECT k.value FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM affiliation a WHERE a.jid = k.value)
OR EXISTS (SELECT 1 FROM subscription s WHERE s.account = k.value)
OR EXISTS (SELECT 1 FROM item i WHERE i.holder = k.value AND i.state = 'locked');

-- items: items by node and id
SELECT %(item)s FROM json_each(?) n CROSS JOIN json_each(n.value) k
CROSS JOIN item i ON i.node_id = CAST(n.key AS INTEGER) AND i.id = k.value;

-- numbers: items by their numbers
SELECT %(item)s FROM json_each(?) k CROSS JOIN item i ON i.seq = k.value;

-- held: some of the items that are locked to exactly these JIDs
SELECT %(item)s FROM json_each(?1) k CROSS JOIN item i ON i.seq IN (
    SELECT h.seq FROM item h CROSS JOIN contents c ON c.id = h.node_id AND c.node_id IS NOT NULL
    WHERE h.holder = k.value AND h.state = 'locked' LIMIT ?2
);

-- payloads: payloads as they were published, by the items' numbers; items that a batch revives are still among the done ones
SELECT i.seq, %(payload)s, i.sum FROM json_each(?1) k CROSS JOIN item i ON i.seq = k.value
UNION ALL SELECT i.seq, %(payload)s, i.sum FROM json_each(?1) k CROSS JOIN done_item i ON i.seq = k.value;

-- receipts: the former holders of items
SELECT r.seq, r.jid FROM json_each(?) k CROSS JOIN receipt r ON r.seq = k.value;

-- finished: ids of finished work
SELECT f.node_id, f.id, f.digest, f.until FROM json_each(?) n CROSS JOIN json_each(n.value) k
CROSS JOIN finished f ON f.node_id = CAST(n.key AS INTEGER) AND f.id = k.value;

-- seeks: queues with a seek under way
SELECT s.node_id, s.since, s.at, s.through FROM json_each(?) k CROSS JOIN seek s ON s.node_id = k.value;

-- settled: locks that were settled, by their tokens
SELECT s.token, s.whose, s.verdict, s.until FROM json_each(?) k CROSS JOIN settled s ON s.token = k.value;

-- answered_deliveries: answers to deliveries of other instances, by lock tokens
SELECT a.token, a.arrived, a.until FROM json_each(?) k CROSS JOIN answered a ON a.token = k.value;

-- ping_answers: when JIDs last answered a ping of another instance
SELECT p.jid, p.at, p.until FROM json_each(?) k CROSS JOIN ping_answer p ON p.jid = k.value;

-- used_keys: keys of publishes, by their digests
SELECT u.mark, u.account, u.content, u.until, u.size, u.ids, u.known FROM json_each(?) k CROSS JOIN used_key u ON u.mark = k.value;

-- key_totals: the totals of accounts' keys
SELECT t.account, t.bytes FROM json_each(?) k CROSS JOIN key_total t ON t.account = k.value;

-- kept_messages: messages of assured service, by their keys, without their bytes
SELECT m.mark, m.sender, m.account, m.msg_id, m.iq_id, m.digest, m.byte_count, m.held, m.answer, m.until
FROM json_each(?) k CROSS JOIN kept_message m ON m.mark = k.value;

-- message_totals: the totals of kept messages, by account
SELECT t.account, t.messages, t.byte_count, t.remembered FROM json_each(?) k CROSS JOIN message_total t ON t.account = k.value;

-- apps: writers of transactions: by name, and by the half of the checksum that is about the name; names can be chosen that share it, so some of them
SELECT json_extract(k.value, '$[0]'), p.name, p.owner, p.version, p.committed, p.used, p.sum FROM json_each(?1) k
CROSS JOIN txn_app p ON p.name = json_extract(k.value, '$[0]')
UNION ALL SELECT json_extract(k.value, '$[0]'), p.name, p.owner, p.version, p.committed, p.used, p.sum FROM json_each(?1) k
CROSS JOIN txn_app p ON p.id IN (SELECT id FROM txn_app WHERE sum >> 32 = json_extract(k.value, '$[1]') LIMIT 16);

-- versions: versions by app and number, open or not: in a damaged row nothing says that it is
SELECT p.name, t.items, t.bytes, t.app_id, t.version, t.owner, t.immediate, t.began, t.until, t.committed, t.on_taken, t.dead_letter_node, t.sum
FROM json_each(?) k
CROSS JOIN txn_app p ON p.name = json_extract(k.value, '$[0]')
CROSS JOIN txn t ON t.app_id = p.id AND t.version = json_extract(k.value, '$[1]');

-- attempts: attempts at parts of open versions
SELECT p.name, t.version, a.part, a.number, a.items, a.bytes, a.known, a.grouped FROM json_each(?) k
CROSS JOIN txn_app p ON p.name = json_extract(k.value, '$[0]')
CROSS JOIN txn t ON t.app_id = p.id AND t.version = json_extract(k.value, '$[1]') AND t.committed IS NULL
CROSS JOIN attempt a ON a.txn_id = t.id AND a.part = json_extract(k.value, '$[2]')
    AND a.number = json_extract(k.value, '$[3]');

-- waiting: the totals of staged items, by account
SELECT u.account, u.items, u.bytes FROM json_each(?) k CROSS JOIN staged_usage u ON u.account = k.value;

-- staged: the sizes of staged items: by app, version, part and attempt an object of nodes with ids
SELECT p.name, t.version, a.part, a.number, s.node, s.id, s.size FROM json_each(?) k
CROSS JOIN txn_app p ON p.name = json_extract(k.value, '$[0]')
CROSS JOIN txn t ON t.app_id = p.id AND t.version = json_extract(k.value, '$[1]') AND t.committed IS NULL
CROSS JOIN attempt a ON a.txn_id = t.id AND a.part = json_extract(k.value, '$[2]')
    AND a.number = json_extract(k.value, '$[3]')
CROSS JOIN json_each(k.value, '$[4]') n CROSS JOIN json_each(n.value) m
CROSS JOIN staged s ON s.txn_id = t.id AND s.node = n.key AND s.id = m.value AND s.attempt_id = a.id;

-- noted: the ids that attempts at open versions have recorded: by app and version an object of nodes with ids
SELECT p.name, t.version, s.node, s.id, s.payload, s.known FROM json_each(?) k
CROSS JOIN txn_app p ON p.name = json_extract(k.value, '$[0]')
CROSS JOIN txn t ON t.app_id = p.id AND t.version = json_extract(k.value, '$[1]') AND t.committed IS NULL
CROSS JOIN json_each(k.value, '$[2]') n CROSS JOIN json_each(n.value) m
CROSS JOIN staged s ON s.txn_id = t.id AND s.node = n.key AND s.id = m.value;

-- holdings: what accounts have created: nodes, items, and the bytes of items and of done items
SELECT n.creator, count(*), sum(n.items), sum(n.bytes + n.done_bytes) FROM json_each(?) k CROSS JOIN node n ON n.creator = k.value
GROUP BY n.creator;

-- ready: the next items of a node to deliver, and as many of those set aside; partial indexes, in their order
SELECT %(item)s, %(payload)s FROM (
    -- After a priority and a number of each kind; in two parts, because one condition would walk all of a priority. A limited number
    -- of places is examined: expired items are skipped in the index, without reading their rows.
    SELECT seq FROM (
        SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND %(ready)s AND priority = ?5 AND %(place)s > ?6
            ORDER BY %(place)s LIMIT ?4
        ) UNION ALL SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND %(ready)s AND priority < ?5
            ORDER BY priority DESC, %(place)s LIMIT ?4
        ) LIMIT ?4
    ) WHERE expires IS NULL OR expires > ?2 LIMIT ?3
) q CROSS JOIN item i ON i.seq = q.seq
UNION ALL SELECT %(item)s, %(payload)s FROM (
    SELECT seq FROM (
        SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND aside AND priority = ?7 AND %(place)s > ?8
            ORDER BY %(place)s LIMIT ?4
        ) UNION ALL SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND aside AND priority < ?7
            ORDER BY priority DESC, %(place)s LIMIT ?4
        ) LIMIT ?4
    ) WHERE expires IS NULL OR expires > ?2 LIMIT ?3
) q CROSS JOIN item i ON i.seq = q.seq;

-- ready_of_size: the same, only payloads up to a size; others are skipped as if they had expired
SELECT %(item)s, %(payload)s FROM (
    SELECT p.seq FROM (
        SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND %(ready)s AND priority = ?5 AND %(place)s > ?6
            ORDER BY %(place)s LIMIT ?4
        ) UNION ALL SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND %(ready)s AND priority < ?5
            ORDER BY priority DESC, %(place)s LIMIT ?4
        ) LIMIT ?4
    ) p CROSS JOIN item i ON i.seq = p.seq WHERE (p.expires IS NULL OR p.expires > ?2) AND %(bytes)s <= ?9 LIMIT ?3
) q CROSS JOIN item i ON i.seq = q.seq
UNION ALL SELECT %(item)s, %(payload)s FROM (
    SELECT p.seq FROM (
        SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND aside AND priority = ?7 AND %(place)s > ?8
            ORDER BY %(place)s LIMIT ?4
        ) UNION ALL SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND aside AND priority < ?7
            ORDER BY priority DESC, %(place)s LIMIT ?4
        ) LIMIT ?4
    ) p CROSS JOIN item i ON i.seq = p.seq WHERE (p.expires IS NULL OR p.expires > ?2) AND %(bytes)s <= ?9 LIMIT ?3
) q CROSS JOIN item i ON i.seq = q.seq;

-- ready_alone: the same, and of the queued items only those without a group
SELECT %(item)s, %(payload)s FROM (
    SELECT p.seq FROM (
        SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND %(ready)s AND priority = ?5 AND %(place)s > ?6
            ORDER BY %(place)s LIMIT ?4
        ) UNION ALL SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND %(ready)s AND priority < ?5
            ORDER BY priority DESC, %(place)s LIMIT ?4
        ) LIMIT ?4
    ) p CROSS JOIN item i ON i.seq = p.seq WHERE (p.expires IS NULL OR p.expires > ?2) AND %(bytes)s <= ?9 AND i.group_name IS NULL LIMIT ?3
) q CROSS JOIN item i ON i.seq = q.seq
UNION ALL SELECT %(item)s, %(payload)s FROM (
    SELECT p.seq FROM (
        SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND aside AND priority = ?7 AND %(place)s > ?8
            ORDER BY %(place)s LIMIT ?4
        ) UNION ALL SELECT * FROM (
            SELECT seq, expires FROM item WHERE node_id = ?1 AND aside AND priority < ?7
            ORDER BY priority DESC, %(place)s LIMIT ?4
        ) LIMIT ?4
    ) p CROSS JOIN item i ON i.seq = p.seq WHERE (p.expires IS NULL OR p.expires > ?2) AND %(bytes)s <= ?9 LIMIT ?3
) q CROSS JOIN item i ON i.seq = q.seq;

-- ready_places: the places of the next items of many nodes
SELECT i.node_id, i.aside, -i.priority, coalesce(i.turn, i.seq), i.seq, %(bytes)s FROM json_each(?1) k CROSS JOIN item i ON i.seq IN (
    SELECT q.seq FROM (
        SELECT seq, expires FROM item WHERE node_id = k.value AND %(ready)s ORDER BY priority DESC, %(place)s LIMIT ?4
    ) q WHERE q.expires IS NULL OR q.expires > ?2 LIMIT ?3
) UNION ALL
SELECT i.node_id, i.aside, -i.priority, coalesce(i.turn, i.seq), i.seq, %(bytes)s FROM json_each(?1) k CROSS JOIN item i ON i.seq IN (
    SELECT q.seq FROM (
        SELECT seq, expires FROM item WHERE node_id = k.value AND aside ORDER BY priority DESC, %(place)s LIMIT ?4
    ) q WHERE q.expires IS NULL OR q.expires > ?2 LIMIT ?3
);

-- ready_ends: the last of a number of places of nodes, of queued items and of those set aside, if there are that many
SELECT i.node_id, i.aside, -i.priority, coalesce(i.turn, i.seq) FROM json_each(?1) k CROSS JOIN item i ON i.seq = (
    SELECT seq FROM (
        SELECT * FROM (
            SELECT seq FROM item WHERE node_id = json_extract(k.value, '$[0]') AND %(ready)s
                AND priority = json_extract(k.value, '$[1]') AND %(place)s > json_extract(k.value, '$[2]')
            ORDER BY %(place)s LIMIT ?2
        ) UNION ALL SELECT * FROM (
            SELECT seq FROM item WHERE node_id = json_extract(k.value, '$[0]') AND %(ready)s
                AND priority < json_extract(k.value, '$[1]')
            ORDER BY priority DESC, %(place)s LIMIT ?2
        )
    ) LIMIT 1 OFFSET ?2 - 1
) UNION ALL
SELECT i.node_id, i.aside, -i.priority, coalesce(i.turn, i.seq) FROM json_each(?1) k CROSS JOIN item i ON i.seq = (
    SELECT seq FROM (
        SELECT * FROM (
            SELECT seq FROM item WHERE node_id = json_extract(k.value, '$[0]') AND aside
                AND priority = json_extract(k.value, '$[3]') AND %(place)s > json_extract(k.value, '$[4]')
            ORDER BY %(place)s LIMIT ?2
        ) UNION ALL SELECT * FROM (
            SELECT seq FROM item WHERE node_id = json_extract(k.value, '$[0]') AND aside
                AND priority < json_extract(k.value, '$[3]')
            ORDER BY priority DESC, %(place)s LIMIT ?2
        )
    ) LIMIT 1 OFFSET ?2 - 1
);

-- ready_items: items with their payloads, by their numbers
SELECT %(item)s, %(payload)s FROM json_each(?) k CROSS JOIN item i ON i.seq = k.value;

-- next_due: when the next lock, pause, lifetime or staged version ends, or a schedule is due, or 0 if there is something to sweep;
-- each part reads one end of one index
SELECT min(moment) FROM (
    SELECT min(deadline) AS moment FROM item WHERE state = 'locked'
    UNION ALL SELECT min(due) FROM item WHERE state = 'delayed'
    UNION ALL SELECT min(due) FROM item WHERE state = 'held' AND due IS NOT NULL
    UNION ALL SELECT min(expires) FROM item WHERE expires IS NOT NULL AND state IN ('queued', 'delayed', 'held')
    UNION ALL SELECT min(until) FROM txn WHERE committed IS NULL
    UNION ALL SELECT min(due) FROM schedule WHERE due IS NOT NULL
    UNION ALL SELECT * FROM (
        SELECT coalesce(s.remind, s.expire) FROM subscription s CROSS JOIN node n ON n.id = s.node_id
        WHERE s.expire IS NOT NULL ORDER BY coalesce(s.remind, s.expire) LIMIT 1
    )
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM attempt WHERE txn_id IS NULL)
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM contents WHERE node_id IS NULL)
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM former_node WHERE telling = 0)
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM large_payload_gone)
);

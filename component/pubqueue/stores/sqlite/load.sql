-- Rows by their keys. The keys come as JSON: a list, or an object with a list for each node's id, so that one
-- constant statement does for any number of them. CROSS JOIN keeps the order: first the keys, then the table
-- by its index. %(item)s are the columns of an item, %(ready)s says that it
-- can be handed out, and %(place)s where it stands then.

-- node_ids: the ids of nodes by their names
SELECT n.name, n.id FROM json_each(?) k CROSS JOIN node n ON n.name = k.value;

-- node_names: the names of nodes by their ids
SELECT n.name, n.id FROM json_each(?) k CROSS JOIN node n ON n.id = k.value;

-- contents_of: the ids of what nodes contain, by the names of the nodes
SELECT n.name, c.id FROM json_each(?) k CROSS JOIN node n ON n.name = k.value CROSS JOIN contents c ON c.node_id = n.id;

-- nodes_holding: the names of nodes by the ids of what they contain
SELECT n.name, c.id FROM json_each(?) k CROSS JOIN contents c ON c.id = k.value CROSS JOIN node n ON n.id = c.node_id;

-- nodes: nodes by their names, with the ids of what they contain
SELECT n.id, n.name, n.config, n.creator, n.created, n.items, n.subscriptions, n.spent, n.bytes, c.id
FROM json_each(?) k CROSS JOIN node n ON n.name = k.value CROSS JOIN contents c ON c.node_id = n.id;

-- affiliations: what accounts are to nodes
SELECT a.node_id, a.jid, a.affiliation FROM json_each(?) n CROSS JOIN json_each(n.value) k
CROSS JOIN affiliation a ON a.node_id = CAST(n.key AS INTEGER) AND a.jid = k.value;

-- subscriptions: those of accounts to nodes
SELECT s.id, s.node_id, s.jid, s.subid, s.queue_requests, s.in_flight, s.last_served, s.available, s.unanswered,
    s.state, s.deliver, s.expire, s.remind, s.temporary, s.several
FROM json_each(?) n CROSS JOIN json_each(n.value) k
CROSS JOIN subscription s ON s.account = k.value AND s.node_id = CAST(n.key AS INTEGER);

-- subscribers: all subscriptions to nodes
SELECT s.id, s.node_id, s.jid, s.subid, s.queue_requests, s.in_flight, s.last_served, s.available, s.unanswered,
    s.state, s.deliver, s.expire, s.remind, s.temporary, s.several
FROM json_each(?) k CROSS JOIN subscription s ON s.node_id = k.value;

-- accounts: all subscriptions of accounts
SELECT s.id, s.node_id, s.jid, s.subid, s.queue_requests, s.in_flight, s.last_served, s.available, s.unanswered,
    s.state, s.deliver, s.expire, s.remind, s.temporary, s.several
FROM json_each(?) k CROSS JOIN subscription s ON s.account = k.value CROSS JOIN node n ON n.id = s.node_id;

-- jids: all subscriptions of exactly these JIDs
SELECT s.id, s.node_id, s.jid, s.subid, s.queue_requests, s.in_flight, s.last_served, s.available, s.unanswered,
    s.state, s.deliver, s.expire, s.remind, s.temporary, s.several
FROM json_each(?) k CROSS JOIN subscription s ON s.jid = k.value CROSS JOIN node n ON n.id = s.node_id;

-- resources: the full JIDs of accounts that are here
SELECT r.jid, r.since FROM json_each(?) k CROSS JOIN resource r ON r.account = k.value ORDER BY r.id;

-- people: those of the accounts and full JIDs that are something to a node, subscribe, or hold an item
SELECT k.value FROM json_each(?) k WHERE EXISTS (SELECT 1 FROM affiliation a WHERE a.jid = k.value)
OR EXISTS (SELECT 1 FROM subscription s WHERE s.account = k.value)
OR EXISTS (SELECT 1 FROM item i WHERE i.holder = k.value AND i.state = 'locked');

-- items: items by node and id
SELECT %(item)s FROM json_each(?) n CROSS JOIN json_each(n.value) k
CROSS JOIN item i ON i.node_id = CAST(n.key AS INTEGER) AND i.id = k.value;

-- numbers: items by their numbers
SELECT %(item)s FROM json_each(?) k CROSS JOIN item i ON i.seq = k.value;

-- held: some of what is locked to exactly these JIDs
SELECT %(item)s FROM json_each(?1) k CROSS JOIN item i ON i.seq IN (
    SELECT h.seq FROM item h CROSS JOIN contents c ON c.id = h.node_id AND c.node_id IS NOT NULL
    WHERE h.holder = k.value AND h.state = 'locked' LIMIT ?2
);

-- payloads: payloads as they were published, by the items' numbers
SELECT i.seq, i.payload FROM json_each(?) k CROSS JOIN item i ON i.seq = k.value;

-- receipts: who held items and lost them
SELECT r.seq, r.jid FROM json_each(?) k CROSS JOIN receipt r ON r.seq = k.value;

-- finished: ids of finished work
SELECT f.node_id, f.id, f.digest, f.until FROM json_each(?) n CROSS JOIN json_each(n.value) k
CROSS JOIN finished f ON f.node_id = CAST(n.key AS INTEGER) AND f.id = k.value;

-- apps: writers of transactions by name
SELECT p.name, p.owner, p.version, p.committed, p.used FROM json_each(?) k CROSS JOIN txn_app p ON p.name = k.value;

-- versions: open versions by app and number
SELECT p.name, t.version, t.owner, t.immediate, t.began, t.until, t.items, t.bytes FROM json_each(?) k
CROSS JOIN txn_app p ON p.name = json_extract(k.value, '$[0]')
CROSS JOIN txn t ON t.app_id = p.id AND t.version = json_extract(k.value, '$[1]') AND t.committed IS NULL;

-- attempts: attempts at parts of open versions
SELECT p.name, t.version, a.part, a.number, a.items, a.bytes, a.known, a.grouped FROM json_each(?) k
CROSS JOIN txn_app p ON p.name = json_extract(k.value, '$[0]')
CROSS JOIN txn t ON t.app_id = p.id AND t.version = json_extract(k.value, '$[1]') AND t.committed IS NULL
CROSS JOIN attempt a ON a.txn_id = t.id AND a.part = json_extract(k.value, '$[2]')
    AND a.number = json_extract(k.value, '$[3]');

-- waiting: what waits for commits, by account
SELECT u.account, u.items, u.bytes FROM json_each(?) k CROSS JOIN staged_usage u ON u.account = k.value;

-- staged: the sizes of staged items: by app, version, part and attempt an object of nodes with ids
SELECT p.name, t.version, a.part, a.number, s.node, s.id, s.size FROM json_each(?) k
CROSS JOIN txn_app p ON p.name = json_extract(k.value, '$[0]')
CROSS JOIN txn t ON t.app_id = p.id AND t.version = json_extract(k.value, '$[1]') AND t.committed IS NULL
CROSS JOIN attempt a ON a.txn_id = t.id AND a.part = json_extract(k.value, '$[2]')
    AND a.number = json_extract(k.value, '$[3]')
CROSS JOIN json_each(k.value, '$[4]') n CROSS JOIN json_each(n.value) m
CROSS JOIN staged s ON s.txn_id = t.id AND s.node = n.key AND s.id = m.value AND s.attempt_id = a.id;

-- noted: what any attempt at open versions has noted of ids: by app and version an object of nodes with ids
SELECT p.name, t.version, s.node, s.id, s.payload, s.known FROM json_each(?) k
CROSS JOIN txn_app p ON p.name = json_extract(k.value, '$[0]')
CROSS JOIN txn t ON t.app_id = p.id AND t.version = json_extract(k.value, '$[1]') AND t.committed IS NULL
CROSS JOIN json_each(k.value, '$[2]') n CROSS JOIN json_each(n.value) m
CROSS JOIN staged s ON s.txn_id = t.id AND s.node = n.key AND s.id = m.value;

-- holdings: what accounts have made that is there: nodes, items and their bytes
SELECT n.creator, count(*), sum(n.items), sum(n.bytes) FROM json_each(?) k CROSS JOIN node n ON n.creator = k.value
GROUP BY n.creator;

-- ready: the next items of a node to hand out, and as many of those put aside; partial indexes, in their order
SELECT %(item)s, i.payload FROM (
    -- Behind a priority and a number of each kind; in two parts, for one condition would walk all of a priority. So many
    -- places are looked at: those whose life is over are passed over in the index, without a look at their rows.
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
UNION ALL SELECT %(item)s, i.payload FROM (
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

-- ready_places: the next items of many nodes, but only where they stand
SELECT i.node_id, i.aside, -i.priority, coalesce(i.turn, i.seq), i.seq, length(i.payload) FROM json_each(?1) k CROSS JOIN item i ON i.seq IN (
    SELECT q.seq FROM (
        SELECT seq, expires FROM item WHERE node_id = k.value AND %(ready)s ORDER BY priority DESC, %(place)s LIMIT ?4
    ) q WHERE q.expires IS NULL OR q.expires > ?2 LIMIT ?3
) UNION ALL
SELECT i.node_id, i.aside, -i.priority, coalesce(i.turn, i.seq), i.seq, length(i.payload) FROM json_each(?1) k CROSS JOIN item i ON i.seq IN (
    SELECT q.seq FROM (
        SELECT seq, expires FROM item WHERE node_id = k.value AND aside ORDER BY priority DESC, %(place)s LIMIT ?4
    ) q WHERE q.expires IS NULL OR q.expires > ?2 LIMIT ?3
);

-- ready_ends: where so many places of nodes end, of what is queued and of what is put aside, if there are so many
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
SELECT %(item)s, i.payload FROM json_each(?) k CROSS JOIN item i ON i.seq = k.value;

-- next_due: when the next lock, pause, life or wait for a commit ends, or a schedule has something to do, or 0 if there is something to sweep;
-- each part reads one end of one index
SELECT min(moment) FROM (
    SELECT min(deadline) AS moment FROM item WHERE state = 'locked'
    UNION ALL SELECT min(due) FROM item WHERE state = 'delayed'
    UNION ALL SELECT min(expires) FROM item WHERE expires IS NOT NULL AND state IN ('queued', 'delayed')
    UNION ALL SELECT min(until) FROM txn WHERE committed IS NULL
    UNION ALL SELECT min(due) FROM schedule WHERE due IS NOT NULL
    UNION ALL SELECT * FROM (
        SELECT coalesce(s.remind, s.expire) FROM subscription s CROSS JOIN node n ON n.id = s.node_id
        WHERE s.expire IS NOT NULL ORDER BY coalesce(s.remind, s.expire) LIMIT 1
    )
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM attempt WHERE txn_id IS NULL)
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM contents WHERE node_id IS NULL)
    UNION ALL SELECT 0 WHERE EXISTS (SELECT 1 FROM former_node WHERE telling = 0)
);

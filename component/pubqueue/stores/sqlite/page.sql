-- Pages of rows, for the listings of the seam. Nodes are passed as their ids, for items as those of their contents; %(item)s are the columns of an item.

-- page_nodes_with: nodes with an access model, by name
SELECT %(node)s
FROM node n WHERE json_extract(n.config, '$.access_model') = ? AND n.name > ? ORDER BY n.name LIMIT ?;

-- nodes_named_with: nodes with an access model between two names, by name
SELECT %(node)s
FROM node n WHERE json_extract(n.config, '$.access_model') = ?1 AND n.name > ?2 AND n.name < ?3 ORDER BY n.name LIMIT ?4;

-- page_nodes_of: nodes with an access model whose payloads are of a type, by name
SELECT %(node)s
FROM node n WHERE json_extract(n.config, '$.type') = ?1 AND json_extract(n.config, '$.access_model') = ?2 AND n.name > ?3 ORDER BY n.name LIMIT ?4;

-- page_nodes_but: nodes with an access model whose payloads are of none of these types, by name
SELECT %(node)s
FROM node n WHERE json_extract(n.config, '$.access_model') = ?1 AND n.name > ?2 AND json_extract(n.config, '$.type') NOT IN (SELECT value FROM json_each(?3)) ORDER BY n.name LIMIT ?4;

-- Backward, the same before a name.

-- page_nodes_with_back: nodes with an access model
SELECT %(node)s
FROM node n WHERE json_extract(n.config, '$.access_model') = ?1 AND n.name < ?2 ORDER BY n.name DESC LIMIT ?3;

-- page_nodes_of_back: nodes with an access model whose payloads are of a type
SELECT %(node)s
FROM node n WHERE json_extract(n.config, '$.type') = ?1 AND json_extract(n.config, '$.access_model') = ?2 AND n.name < ?3 ORDER BY n.name DESC LIMIT ?4;

-- page_nodes_but_back: nodes with an access model whose payloads are of none of these types
SELECT %(node)s
FROM node n WHERE json_extract(n.config, '$.access_model') = ?1 AND n.name < ?2 AND json_extract(n.config, '$.type') NOT IN (SELECT value FROM json_each(?3)) ORDER BY n.name DESC LIMIT ?4;

-- count_nodes_of: how many nodes with an access model have payloads of a type
SELECT count(*) FROM node n WHERE json_extract(n.config, '$.type') = ?1 AND json_extract(n.config, '$.access_model') = ?2;

-- count_nodes_but: how many nodes with an access model have payloads of none of these types
SELECT count(*) FROM node n WHERE json_extract(n.config, '$.access_model') = ?1 AND json_extract(n.config, '$.type') NOT IN (SELECT value FROM json_each(?2));

-- count_nodes_with: how many nodes have an access model
SELECT count(*) FROM node n WHERE json_extract(n.config, '$.access_model') = ?;

-- ready_nodes: queues with something to deliver and a free window, in the order of their ids
-- Nodes with a free window are walked, one step of the index to each; items are searched in the contents of a node, because
-- contents are not in the order of nodes; without the hint SQLite would walk all items of a node.
WITH RECURSIVE walk(id) AS (
    SELECT min(node_id) FROM subscription WHERE available AND in_flight < queue_requests AND node_id > ?1
    UNION ALL
    SELECT (SELECT min(node_id) FROM subscription WHERE available AND in_flight < queue_requests AND node_id > walk.id)
    FROM walk WHERE walk.id IS NOT NULL LIMIT ?2
)
SELECT walk.id, (
    SELECT n.name FROM node n CROSS JOIN contents c ON c.node_id = n.id
    WHERE n.id = walk.id AND instr(n.config, '"queueing":true') AND ( -- settings that are damaged are no JSON
        EXISTS (SELECT 1 FROM item INDEXED BY item_ready WHERE node_id = c.id AND %(ready)s)
        OR EXISTS (SELECT 1 FROM item INDEXED BY item_aside WHERE node_id = c.id AND aside)
    )
) FROM walk WHERE walk.id IS NOT NULL;

-- free_subscriptions: subscriptions of a node with room, by the share in flight, by their service, by JID
SELECT %(subscription)s
FROM subscription s WHERE s.node_id = ?1 AND s.available AND s.in_flight < s.queue_requests
    AND (CAST(s.in_flight AS REAL) / s.queue_requests, s.last_served, s.jid) > (?2, ?3, ?4)
ORDER BY CAST(s.in_flight AS REAL) / s.queue_requests, s.last_served, s.jid LIMIT ?5;

-- subscribers_of: subscribers of a node that can be notified, by JID
SELECT jid, sum FROM subscription WHERE node_id = ? AND state = 'subscribed' AND jid > ? AND deliver ORDER BY jid LIMIT ?;

-- subscriptions_of: subscriptions to a node in a state, by JID
SELECT %(subscription)s
FROM subscription s WHERE s.node_id = ? AND s.state = ? AND s.jid > ? ORDER BY s.jid LIMIT ?;

-- subscriptions_of_back: the same before a JID
SELECT %(subscription)s
FROM subscription s WHERE s.node_id = ? AND s.state = ? AND s.jid < ? ORDER BY s.jid DESC LIMIT ?;

-- several_of: subscribers with several subscriptions to a node, by JID, up to one
SELECT %(subscription)s
FROM subscription s INDEXED BY subscription_several
WHERE s.node_id = ?1 AND s.state = 'subscribed' AND s.several IS NOT NULL AND s.jid > ?2 AND s.jid <= ?3 ORDER BY s.jid LIMIT ?4;

-- subscriber_roles: the same with the affiliations of their accounts
SELECT s.jid, coalesce(a.affiliation, 'none'), s.state FROM subscription s
LEFT JOIN affiliation a ON a.node_id = s.node_id AND a.jid = s.account
WHERE s.node_id = ? AND s.jid > ? ORDER BY s.jid LIMIT ?;

-- node_sums: totals of the nodes that accounts have created, of a number of nodes after one; by account
SELECT creator, count(*), sum(items), sum(bytes + done_bytes), max(id) FROM (
    SELECT creator, id, items, bytes, done_bytes FROM node WHERE (creator, id) > (?, ?) ORDER BY creator, id LIMIT ?
) GROUP BY creator ORDER BY creator;

-- reviews: nodes whose subscribers have to be reviewed
SELECT n.name FROM review r CROSS JOIN node n ON n.id = r.node_id WHERE n.name > ? ORDER BY n.name LIMIT ?;

-- former_subscribers: subscribers of a deleted node that have to be notified
SELECT jid FROM subscription WHERE node_id = (SELECT min(id) FROM former_node WHERE name = ? AND telling = 1)
    AND state = 'subscribed' AND jid > ? AND deliver ORDER BY jid LIMIT ?;

-- unnotified_nodes: deleted nodes whose subscribers have to be notified
SELECT id, name FROM former_node WHERE telling = 1 AND id > ? ORDER BY id LIMIT ?;

-- nodes_of_account: nodes with which an account has an affiliation
SELECT %(node)s, a.affiliation, a.sum
FROM affiliation a CROSS JOIN node n ON n.id = a.node_id
WHERE a.jid = ?1 AND n.name > ?2 AND (?3 IS NULL OR a.affiliation IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR json_extract(n.config, '$.access_model') IN (SELECT value FROM json_each(?4)))
    AND (?6 IS NULL OR json_extract(n.config, '$.type') IN (SELECT value FROM json_each(?6)))
    AND (?7 IS NULL OR json_extract(n.config, '$.type') NOT IN (SELECT value FROM json_each(?7)))
ORDER BY n.name LIMIT ?5;

-- nodes_of_account_back: the same before a name
SELECT %(node)s, a.affiliation, a.sum
FROM affiliation a CROSS JOIN node n ON n.id = a.node_id
WHERE a.jid = ?1 AND n.name < ?2 AND (?3 IS NULL OR a.affiliation IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR json_extract(n.config, '$.access_model') IN (SELECT value FROM json_each(?4)))
    AND (?6 IS NULL OR json_extract(n.config, '$.type') IN (SELECT value FROM json_each(?6)))
    AND (?7 IS NULL OR json_extract(n.config, '$.type') NOT IN (SELECT value FROM json_each(?7)))
ORDER BY n.name DESC LIMIT ?5;

-- count_nodes_of_account: their number
SELECT count(*) FROM affiliation a CROSS JOIN node n ON n.id = a.node_id
WHERE a.jid = ?1 AND (?2 IS NULL OR a.affiliation IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR json_extract(n.config, '$.access_model') IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR json_extract(n.config, '$.type') IN (SELECT value FROM json_each(?4)))
    AND (?5 IS NULL OR json_extract(n.config, '$.type') NOT IN (SELECT value FROM json_each(?5)));

-- subscriptions_of_account: subscriptions of an account, by node and JID
SELECT %(subscription)s
FROM subscription s CROSS JOIN node n ON n.id = s.node_id
WHERE s.account = ?1 AND (?2 IS NULL OR n.name = ?2) AND (n.name, s.jid) > (?3, ?4) ORDER BY n.name, s.jid LIMIT ?5;

-- subscriptions_of_account_back: the same before a node and a JID
SELECT %(subscription)s
FROM subscription s CROSS JOIN node n ON n.id = s.node_id
WHERE s.account = ?1 AND (?2 IS NULL OR n.name = ?2) AND (n.name, s.jid) < (?3, ?4) ORDER BY n.name DESC, s.jid DESC LIMIT ?5;

-- count_subscriptions_of_account: their number
SELECT count(*) + coalesce(sum(json_array_length(s.several) - 1), 0) FROM subscription s CROSS JOIN node n ON n.id = s.node_id
WHERE s.account = ?1 AND (?2 IS NULL OR n.name = ?2);

-- done_items: done items of a queue, by publish time, after a time and a number
SELECT * FROM (
    SELECT %(done)s FROM done_item d WHERE d.node_id = ?1 AND d.published = ?2 AND d.seq > ?3 ORDER BY d.seq LIMIT ?4
) here UNION ALL SELECT * FROM (
    SELECT %(done)s FROM done_item d WHERE d.node_id = ?1 AND d.published > ?2 ORDER BY d.published, d.seq LIMIT ?4
) later LIMIT ?4;

-- oldest: a node's items after a number
SELECT %(item)s, %(payload)s FROM item i WHERE i.node_id = ?1 AND i.seq > ?2 ORDER BY i.seq LIMIT ?3;

-- newest: a node's last items before a number, the newest first
SELECT %(item)s, %(payload)s FROM item i WHERE i.node_id = ?1 AND i.seq < ?2 ORDER BY i.seq DESC LIMIT ?3;

-- held_numbers: the numbers of the items that some JIDs hold of a node
SELECT i.seq FROM item i
WHERE i.state = 'locked' AND i.holder IN (SELECT value FROM json_each(?2)) AND +i.node_id = ?1;

-- numbered: items of these numbers, in their order; an ORDER BY would sort them with their payloads
SELECT %(item)s, %(payload)s FROM json_each(?) k CROSS JOIN item i ON i.seq = k.value;

-- without_sum: items without a checksum, with their payloads
SELECT %(item)s, %(payload)s FROM item i INDEXED BY item_without_sum WHERE i.sum IS NULL ORDER BY i.seq LIMIT ?;

-- done_without_sum: done items without a checksum, with their payloads
SELECT %(done)s, (SELECT %(payload)s FROM done_item i WHERE i.seq = d.seq) FROM done_item d INDEXED BY done_item_without_sum WHERE d.sum IS NULL ORDER BY d.seq LIMIT ?;

-- dead: items that died here or were moved here dead, and are not locked
SELECT %(item)s FROM item i INDEXED BY item_dead
WHERE i.node_id = ? AND i.dead_at IS NOT NULL AND i.state != 'locked' AND i.seq > ? ORDER BY i.seq LIMIT ?;

-- locks_from_last: all locks, the last to end first: the rest of those that end together, then earlier ones
SELECT * FROM (
    SELECT %(item)s FROM item i CROSS JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'locked' AND i.deadline = ?1 AND i.seq < ?2 ORDER BY i.seq DESC LIMIT ?3
) UNION ALL SELECT * FROM (
    SELECT %(item)s FROM item i CROSS JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'locked' AND i.deadline < ?1 ORDER BY i.deadline DESC, i.seq DESC LIMIT ?3
) LIMIT ?3;

-- delayed_from_last: all delayed items, the last to be due first, in two parts likewise
SELECT * FROM (
    SELECT %(item)s FROM item i CROSS JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'delayed' AND i.due = ?1 AND i.seq < ?2 ORDER BY i.seq DESC LIMIT ?3
) UNION ALL SELECT * FROM (
    SELECT %(item)s FROM item i CROSS JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'delayed' AND i.due < ?1 ORDER BY i.due DESC, i.seq DESC LIMIT ?3
) LIMIT ?3;

-- items_from_last: items of all nodes before a number, the newest first
SELECT %(item)s FROM item i CROSS JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
WHERE i.seq < ?1 ORDER BY i.seq DESC LIMIT ?2;

-- locks: locked items, after a deadline and a number; in two parts, because one condition would walk all of a deadline
SELECT * FROM (
    SELECT %(item)s FROM item i CROSS JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'locked' AND i.deadline = ?1 AND i.seq > ?2 ORDER BY i.seq LIMIT ?3
) UNION ALL SELECT * FROM (
    SELECT %(item)s FROM item i CROSS JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'locked' AND i.deadline > ?1 ORDER BY i.deadline, i.seq LIMIT ?3
) LIMIT ?3;

-- held_by: items locked to a JID, in any node or in one, after a number
SELECT %(item)s FROM item i INDEXED BY item_held CROSS JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
WHERE i.state = 'locked' AND i.holder = ?1 AND i.seq > ?2 AND (?3 IS NULL OR +i.node_id = ?3) ORDER BY i.seq LIMIT ?4;

-- count_held_by: their number
SELECT count(*) FROM item i INDEXED BY item_held CROSS JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
WHERE i.state = 'locked' AND i.holder = ?1 AND (?2 IS NULL OR +i.node_id = ?2);

-- holders_of: addresses that hold items and match a pattern, by address
SELECT DISTINCT holder FROM item INDEXED BY item_held
WHERE state = 'locked' AND holder > ?1 AND holder LIKE ?2 ESCAPE '!' ORDER BY holder LIMIT ?3;

-- known_resources: the known full JIDs of all accounts, by address
SELECT jid FROM resource WHERE jid > ? ORDER BY jid LIMIT ?;

-- held_of: how many items of nodes all addresses of accounts hold: a list of contents and accounts; "0" is the character after "/"
SELECT (
    SELECT count(*) FROM item INDEXED BY item_held
    WHERE state = 'locked' AND +node_id = json_extract(k.value, '$[0]')
        AND holder >= json_extract(k.value, '$[1]') AND holder < json_extract(k.value, '$[1]') || '0'
        AND (
            holder = json_extract(k.value, '$[1]')
            OR substr(holder, 1, length(json_extract(k.value, '$[1]')) + 1) = json_extract(k.value, '$[1]') || '/'
        )
) FROM json_each(?) k ORDER BY k.key;

-- shown: a page of a node's items, with their sizes
SELECT %(item)s, %(bytes)s, CASE WHEN ?5 THEN %(payload)s END FROM item i
WHERE i.node_id = ?1 AND i.seq > ?2 AND i.seq <= ?3 AND (?4 IS NULL OR i.state = ?4) ORDER BY i.seq LIMIT ?6;

-- shown_dead: a page of a node's dead, by their deaths
SELECT %(item)s, %(bytes)s, CASE WHEN ?5 THEN %(payload)s END FROM item i
WHERE i.node_id = ?1 AND i.death > ?2 AND i.death <= ?3 AND ?4 = 'dead' ORDER BY i.death LIMIT ?6;

-- newest_done: the highest number of a done item of a queue
SELECT coalesce(max(seq), 0) FROM done_item WHERE node_id = ?1;

-- done_named: the done items of an id in a queue, the newest first
SELECT %(done)s FROM done_item d WHERE d.node_id = ?1 AND d.id = ?2 ORDER BY d.seq DESC LIMIT ?3;

-- shown_done: a page of a queue's done items; without the hint SQLite may walk those of all queues
SELECT %(done)s, (SELECT %(bytes)s FROM done_item i WHERE i.seq = d.seq),
    CASE WHEN ?5 THEN (SELECT %(payload)s FROM done_item i WHERE i.seq = d.seq) END
FROM done_item d INDEXED BY done_item_number
WHERE d.node_id = ?1 AND d.seq > ?2 AND d.seq <= ?3 AND ?4 = 'done' ORDER BY d.seq LIMIT ?6;

-- node_entries: nodes with their items by state; locked items are found by their locks, because there are few
WITH locked(node_id, items) AS MATERIALIZED (
    SELECT node_id, count(*) FROM item INDEXED BY item_deadline WHERE state = 'locked' GROUP BY node_id
)
SELECT %(node)s,
    ifnull(?4, (SELECT count(*) FROM item INDEXED BY item_ready WHERE node_id = c.id AND %(ready)s) + (
        SELECT count(*) FROM item INDEXED BY item_grouped
        WHERE node_id = c.id AND state = 'queued' AND group_name IS NOT NULL AND turn IS NULL
    )),
    ifnull((SELECT items FROM locked WHERE node_id = c.id), 0),
    (SELECT count(*) FROM item INDEXED BY item_waits WHERE node_id = c.id AND state = 'held'),
    -- the index has the numbers in their order, so the first one is one step
    (SELECT published FROM item WHERE seq = (SELECT min(seq) FROM item INDEXED BY item_waits WHERE node_id = c.id AND state = 'held')),
    ifnull(?5, (SELECT count(*) FROM item INDEXED BY item_death WHERE node_id = c.id AND death IS NOT NULL AND state = 'dead')),
    (SELECT coalesce(sum(max(0, queue_requests - in_flight)), 0) FROM subscription WHERE node_id = n.id AND available),
    (SELECT published FROM item WHERE seq = (
        -- the oldest of each priority is the first of it: one step of the index to each; only of groups there are others
        WITH RECURSIVE level(priority) AS (
            SELECT max(priority) FROM item INDEXED BY item_ready WHERE node_id = c.id AND %(ready)s
            UNION ALL SELECT (
                SELECT max(priority) FROM item INDEXED BY item_ready
                WHERE node_id = c.id AND %(ready)s AND priority < level.priority
            ) FROM level WHERE level.priority IS NOT NULL
        )
        SELECT min(seq) FROM (
            SELECT (
                SELECT seq FROM item INDEXED BY item_ready
                WHERE node_id = c.id AND %(ready)s AND priority = level.priority ORDER BY %(place)s LIMIT 1
            ) AS seq FROM level WHERE level.priority IS NOT NULL
            UNION ALL SELECT min(seq) FROM item INDEXED BY item_grouped
            WHERE node_id = c.id AND state = 'queued' AND group_name IS NOT NULL
        )
    ))
FROM json_each(?1) k CROSS JOIN node n ON n.name = k.value CROSS JOIN contents c ON c.node_id = n.id
WHERE n.name > ?2 ORDER BY n.name LIMIT ?3;

-- affiliations_among: the affiliations with some nodes, up to so many of each
SELECT n.name, a.node_id, a.jid, a.affiliation, a.sum
FROM json_each(?1) k CROSS JOIN node n ON n.name = k.value
CROSS JOIN affiliation a ON a.node_id = n.id AND a.jid < ifnull(
    (SELECT jid FROM affiliation WHERE node_id = n.id ORDER BY jid LIMIT 1 OFFSET ?2), char(1114111)
)
ORDER BY n.name, a.jid LIMIT ?3;

-- count_queued: how many items are ready after a priority and a place, counted up to a limit
SELECT count(*) FROM (
    SELECT * FROM (
        SELECT 1 FROM item WHERE node_id = ?1 AND %(ready)s AND priority = ?2 AND %(place)s > ?3 LIMIT ?4
    ) UNION ALL SELECT * FROM (
        SELECT 1 FROM item WHERE node_id = ?1 AND %(ready)s AND priority < ?2 LIMIT ?4
    ) LIMIT ?4
);

-- newest_items: the highest number of an item in each of some nodes
SELECT n.name, (SELECT max(i.seq) FROM item i WHERE i.node_id = c.id) AS newest
FROM json_each(?1) k CROSS JOIN node n ON n.name = k.value CROSS JOIN contents c ON c.node_id = n.id
WHERE newest IS NOT NULL LIMIT ?2;

-- count_too_large: how many of the first ready items have more than this many bytes of payload
SELECT count(*) FROM (
    SELECT seq FROM item WHERE node_id = ?1 AND %(ready)s ORDER BY priority DESC, %(place)s LIMIT ?3
) q CROSS JOIN item i ON i.seq = q.seq WHERE %(bytes)s > ?2;

-- queued_end: the last of this many ready items after a priority and a place
SELECT priority, place FROM (
    SELECT * FROM (
        SELECT priority, %(place)s AS place FROM item WHERE node_id = ?1 AND %(ready)s AND priority = ?2 AND %(place)s > ?3
        ORDER BY %(place)s LIMIT ?4
    ) UNION ALL SELECT * FROM (
        SELECT priority, %(place)s FROM item WHERE node_id = ?1 AND %(ready)s AND priority < ?2
        ORDER BY priority DESC, %(place)s LIMIT ?4
    )
) LIMIT 1 OFFSET ?4 - 1;

-- count_line: of the next queued items of groups: how many have no turn, how many were examined, and the last one
SELECT count(*) FILTER (WHERE turn IS NULL), count(*), max(seq) FROM (
    SELECT seq, turn FROM item INDEXED BY item_grouped
    WHERE node_id = ?1 AND state = 'queued' AND group_name IS NOT NULL AND seq > ?2 ORDER BY seq LIMIT ?3
);

-- group_turns: how many current turns groups have: a list of contents and names
SELECT (
    SELECT count(*) FROM item INDEXED BY item_turn
    WHERE node_id = json_extract(k.value, '$[0]') AND group_name = json_extract(k.value, '$[1]') AND turn IS NOT NULL
) FROM json_each(?) k ORDER BY k.key;

-- group_taken: the items of groups that have turns
SELECT %(item)s FROM json_each(?1) k CROSS JOIN item i ON i.seq IN (
    SELECT seq FROM item INDEXED BY item_turn
    WHERE node_id = json_extract(k.value, '$[0]') AND group_name = json_extract(k.value, '$[1]') AND turn IS NOT NULL
);

-- group_lines: the first waiting items of groups, up to a number of each
SELECT %(item)s FROM json_each(?1) k CROSS JOIN item i ON i.seq IN (
    SELECT seq FROM item INDEXED BY item_line
    WHERE node_id = json_extract(k.value, '$[0]') AND group_name = json_extract(k.value, '$[1]')
        AND state = 'queued' AND group_name IS NOT NULL AND turn IS NULL
    ORDER BY seq LIMIT ?2
);

-- groups_ready: the items of groups that can be delivered, up to a number of each, only payloads up to a size
SELECT %(item)s FROM json_each(?1) k CROSS JOIN item i ON i.seq IN (
    SELECT i.seq FROM item i INDEXED BY item_turn
    WHERE i.node_id = json_extract(k.value, '$[0]') AND i.group_name = json_extract(k.value, '$[1]') AND i.turn IS NOT NULL
        AND i.state = 'queued' AND (i.expires IS NULL OR i.expires > ?2) AND %(bytes)s <= ?3
    ORDER BY i.priority DESC, i.turn LIMIT ?4
);

-- groups_with_turns: groups of a node with items that have turns, by name; one step of the index to each
WITH RECURSIVE walk(name) AS (
    SELECT min(group_name) FROM item INDEXED BY item_turn WHERE node_id = ?1 AND turn IS NOT NULL AND group_name > ?2
    UNION ALL SELECT (
        SELECT min(group_name) FROM item INDEXED BY item_turn WHERE node_id = ?1 AND turn IS NOT NULL AND group_name > walk.name
    ) FROM walk WHERE walk.name IS NOT NULL LIMIT ?3
)
SELECT name FROM walk WHERE name IS NOT NULL;

-- waiting_groups: groups of a node with waiting items, by name; one step of the index to each
WITH RECURSIVE walk(name) AS (
    SELECT min(group_name) FROM item INDEXED BY item_line
    WHERE node_id = ?1 AND state = 'queued' AND group_name IS NOT NULL AND turn IS NULL AND group_name > ?2
    UNION ALL SELECT (
        SELECT min(group_name) FROM item INDEXED BY item_line
        WHERE node_id = ?1 AND state = 'queued' AND group_name IS NOT NULL AND turn IS NULL AND group_name > walk.name
    ) FROM walk WHERE walk.name IS NOT NULL LIMIT ?3
)
SELECT name FROM walk WHERE name IS NOT NULL;

-- open_records: a page of open versions, of which there are few
SELECT %(record)s
FROM txn t INDEXED BY txn_open JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NULL AND t.id > ?1 AND p.name = coalesce(?2, p.name) AND t.owner = coalesce(?3, t.owner)
ORDER BY t.id LIMIT ?4;

-- records: a page of committed versions
SELECT %(record)s
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NOT NULL AND t.id > ?1 ORDER BY t.id LIMIT ?4;

-- records_of_owner: the records of an account
SELECT %(record)s
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NOT NULL AND t.owner = ?3 AND t.id > ?1 ORDER BY t.id LIMIT ?4;

-- anything_to_sweep: whether a sweep has anything to delete
SELECT EXISTS (SELECT 1 FROM attempt WHERE txn_id IS NULL)
    OR EXISTS (SELECT 1 FROM contents WHERE node_id IS NULL)
    OR EXISTS (SELECT 1 FROM former_node WHERE telling = 0)
    OR EXISTS (SELECT 1 FROM large_payload_gone)
    OR EXISTS (SELECT 1 FROM txn t WHERE t.committed IS NOT NULL AND t.committed < ?1 AND t.until < ?1
               AND NOT EXISTS (SELECT 1 FROM attempt WHERE txn_id = t.id AND committed))
    OR EXISTS (SELECT 1 FROM txn_app p WHERE used < ?1 AND coalesce(committed, used) < ?1
               AND NOT EXISTS (SELECT 1 FROM txn t WHERE t.app_id = p.id));

-- contents_of_item: the contents of all items, by number
SELECT i.seq, 0, n.name, i.id, coalesce(i.group_name, ''), i.headers, i.sum, %(payload)s, i.wait, i.joins
FROM item i CROSS JOIN contents c ON c.id = i.node_id CROSS JOIN node n ON n.id = c.node_id
WHERE i.seq > ?1 AND ?2 <= 0 ORDER BY i.seq LIMIT ?3;

-- contents_of_done_item: the same of done items
SELECT i.seq, 0, n.name, i.id, coalesce(i.group_name, ''), i.headers, i.sum, %(payload)s, NULL, NULL
FROM done_item i CROSS JOIN contents c ON c.id = i.node_id CROSS JOIN node n ON n.id = c.node_id
WHERE i.seq > ?1 AND ?2 <= 0 ORDER BY i.seq LIMIT ?3;

-- count_left_over: how many large payloads belong to no item, and wait for no sweep
SELECT count(*) FROM large_payload l WHERE NOT EXISTS (SELECT 1 FROM item WHERE seq = l.seq AND length(payload) = 0)
    AND NOT EXISTS (SELECT 1 FROM large_payload_gone WHERE seq = l.seq)
    AND NOT EXISTS (SELECT 1 FROM done_item WHERE seq = l.seq AND length(payload) = 0);

-- contents_of_staged: the contents of all staged items, by attempt and row
SELECT s.attempt_id, s.row, s.node, s.id, coalesce(s.group_name, ''), s.headers, s.sum, s.payload, NULL, NULL
FROM staged s WHERE (s.attempt_id, s.row) > (?1, ?2) ORDER BY s.attempt_id, s.row LIMIT ?3;

-- winner_rows: the rows of an attempt after a row, and which other attempts have the same ids
SELECT s.row, s.node, s.id, s.state, s.priority, s.pause, s.life, s.known, s.size, s.headers, s.group_name, s.sum, (
    SELECT group_concat(o.attempt_id) FROM staged o
    WHERE o.txn_id = s.txn_id AND o.node = s.node AND o.id = s.id AND o.attempt_id != s.attempt_id
), s.payload
FROM staged s WHERE s.attempt_id = ? AND s.row > ? ORDER BY s.row LIMIT ?;

-- unmoved: committed versions with winners that still have to be moved
SELECT %(record)s FROM (SELECT DISTINCT txn_id FROM attempt WHERE committed) a
CROSS JOIN txn t ON t.id = a.txn_id CROSS JOIN txn_app p ON p.id = t.app_id ORDER BY a.txn_id LIMIT ?;

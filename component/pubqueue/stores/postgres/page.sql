-- Pages of rows, for the listings of the seam. Nodes are passed as their ids, for items as those of their contents; %(item)s are the columns of an item.

-- page_nodes_with: nodes with an access model, by name
SELECT %(node)s
FROM node n WHERE n.access_model = $1 AND n.name > $2 ORDER BY n.name LIMIT $3;

-- nodes_named_with: nodes with an access model between two names, by name
SELECT %(node)s
FROM node n WHERE n.access_model = $1 AND n.name > $2 AND n.name < $3 ORDER BY n.name LIMIT $4;

-- page_nodes_of: nodes with an access model whose payloads are of a type, by name
SELECT %(node)s
FROM node n WHERE hashtextextended(n.type, 0) = hashtextextended($1::text, 0) AND n.type = $1 AND n.access_model = $2 AND n.name > $3 ORDER BY n.name LIMIT $4;

-- page_nodes_but: nodes with an access model whose payloads are of none of these types, by name
SELECT %(node)s
FROM node n WHERE n.access_model = $1 AND n.name > $2 AND n.type NOT IN (SELECT json_array_elements_text($3::json)) ORDER BY n.name LIMIT $4;

-- Backward, the same before a name.

-- page_nodes_with_back: nodes with an access model
SELECT %(node)s
FROM node n WHERE n.access_model = $1 AND n.name < $2 ORDER BY n.name DESC LIMIT $3;

-- page_nodes_of_back: nodes with an access model whose payloads are of a type
SELECT %(node)s
FROM node n WHERE hashtextextended(n.type, 0) = hashtextextended($1::text, 0) AND n.type = $1 AND n.access_model = $2 AND n.name < $3 ORDER BY n.name DESC LIMIT $4;

-- page_nodes_but_back: nodes with an access model whose payloads are of none of these types
SELECT %(node)s
FROM node n WHERE n.access_model = $1 AND n.name < $2 AND n.type NOT IN (SELECT json_array_elements_text($3::json)) ORDER BY n.name DESC LIMIT $4;

-- count_nodes_of: how many nodes with an access model have payloads of a type
SELECT count(*) FROM node n WHERE hashtextextended(n.type, 0) = hashtextextended($1::text, 0) AND n.type = $1 AND n.access_model = $2;

-- count_nodes_but: how many nodes with an access model have payloads of none of these types
SELECT count(*) FROM node n WHERE n.access_model = $1 AND n.type NOT IN (SELECT json_array_elements_text($2::json));

-- count_nodes_with: how many nodes have an access model
SELECT count(*) FROM node n WHERE n.access_model = $1;

-- ready_nodes: queues with something to deliver and a free window, in the order of their ids
-- Nodes with a free window are walked, one step of the index to each; items are searched in the contents of a node, because
-- contents are not in the order of nodes.
WITH RECURSIVE walk(id) AS (
    SELECT min(node_id) FROM subscription WHERE available AND in_flight < queue_requests AND node_id > $1
    UNION ALL
    SELECT (SELECT min(node_id) FROM subscription WHERE available AND in_flight < queue_requests AND node_id > walk.id)
    FROM walk WHERE walk.id IS NOT NULL
)
SELECT w.id, (
    SELECT n.name FROM node n JOIN contents c ON c.node_id = n.id
    WHERE n.id = w.id AND n.queueing AND (
        EXISTS (SELECT 1 FROM item WHERE node_id = c.id AND %(ready)s OFFSET 0) -- without it all that is queued is walked
        OR EXISTS (SELECT 1 FROM item WHERE node_id = c.id AND aside OFFSET 0)
    )
) FROM (SELECT walk.id FROM walk LIMIT $2) w WHERE w.id IS NOT NULL;

-- free_subscriptions: subscriptions of a node with room, by the share in flight, by their service, by JID
SELECT %(subscription)s
FROM subscription s WHERE s.node_id = $1 AND s.available AND s.in_flight < s.queue_requests
    AND (s.in_flight::float8 / s.queue_requests, s.last_served, s.jid) > ($2::float8, $3::bigint, $4::text)
ORDER BY s.in_flight::float8 / s.queue_requests, s.last_served, s.jid LIMIT $5;

-- subscribers_of: subscribers of a node that can be notified, by JID
SELECT jid, sum FROM subscription
WHERE node_id = $1 AND state = 'subscribed' AND left(jid, 500) >= left($2::text, 500) AND jid > $2 AND deliver
ORDER BY node_id, state, left(jid, 500), jid LIMIT $3;

-- subscriptions_of: subscriptions to a node in a state, by JID
SELECT %(subscription)s
FROM subscription s
WHERE s.node_id = $1 AND s.state = $2 AND left(s.jid, 500) >= left($3::text, 500) AND s.jid > $3
ORDER BY s.node_id, s.state, left(s.jid, 500), s.jid LIMIT $4;

-- subscriptions_of_back: the same before a JID
SELECT %(subscription)s
FROM subscription s
WHERE s.node_id = $1 AND s.state = $2 AND left(s.jid, 500) <= left($3::text, 500) AND s.jid < $3
ORDER BY s.node_id DESC, s.state DESC, left(s.jid, 500) DESC, s.jid DESC LIMIT $4;

-- several_of: subscribers with several subscriptions to a node, by JID, up to one
SELECT %(subscription)s
FROM subscription s
WHERE s.node_id = $1 AND s.state = 'subscribed' AND s.several IS NOT NULL
    AND left(s.jid, 500) >= left($2::text, 500) AND left(s.jid, 500) <= left($3::text, 500) AND s.jid > $2 AND s.jid <= $3
ORDER BY s.node_id, s.state, left(s.jid, 500), s.jid LIMIT $4;

-- subscriber_roles: the same with the affiliations of their accounts
SELECT s.jid, coalesce(a.affiliation, 'none'), s.state FROM subscription s
LEFT JOIN affiliation a ON a.node_id = s.node_id AND a.jid = s.account
WHERE s.node_id = $1 AND left(s.jid, 500) >= left($2::text, 500) AND s.jid > $2
ORDER BY left(s.jid, 500), s.jid LIMIT $3;

-- node_sums: totals of the nodes that accounts have created, of a number of nodes after one; by account
SELECT creator, count(*), sum(items)::bigint, sum(bytes + done_bytes)::bigint, max(id) FROM (
    SELECT creator, id, items, bytes, done_bytes FROM node WHERE (creator, id + 0) > ($1, $2) ORDER BY creator, id + 0 LIMIT $3
) n GROUP BY creator ORDER BY creator;

-- reviews: nodes whose subscribers have to be reviewed
SELECT n.name FROM review r
CROSS JOIN LATERAL (SELECT * FROM node WHERE id = r.node_id OFFSET 0) n WHERE n.name > $1 ORDER BY n.name LIMIT $2;

-- former_subscribers: subscribers of a deleted node that have to be notified
SELECT jid FROM subscription WHERE node_id = (SELECT min(id) FROM former_node WHERE name = $1 AND telling)
    AND state = 'subscribed' AND left(jid, 500) >= left($2::text, 500) AND jid > $2 AND deliver
ORDER BY node_id, state, left(jid, 500), jid LIMIT $3;

-- unnotified_nodes: deleted nodes whose subscribers have to be notified
SELECT id, name FROM former_node WHERE telling AND id > $1 ORDER BY id LIMIT $2;

-- nodes_of_account: nodes with which an account has an affiliation
SELECT %(node)s, a.affiliation, a.sum
FROM (SELECT * FROM affiliation WHERE jid = $1 OFFSET 0) a
CROSS JOIN LATERAL (SELECT * FROM node WHERE id = a.node_id OFFSET 0) n
WHERE n.name > $2 AND ($3::json IS NULL OR a.affiliation IN (SELECT json_array_elements_text($3::json)))
    AND ($4::json IS NULL OR n.access_model IN (SELECT json_array_elements_text($4::json)))
    AND ($6::json IS NULL OR n.type IN (SELECT json_array_elements_text($6::json)))
    AND ($7::json IS NULL OR n.type NOT IN (SELECT json_array_elements_text($7::json)))
ORDER BY n.name LIMIT $5;

-- nodes_of_account_back: the same before a name
SELECT %(node)s, a.affiliation, a.sum
FROM (SELECT * FROM affiliation WHERE jid = $1 OFFSET 0) a CROSS JOIN LATERAL (SELECT * FROM node WHERE id = a.node_id OFFSET 0) n
WHERE n.name < $2 AND ($3::json IS NULL OR a.affiliation IN (SELECT json_array_elements_text($3::json)))
    AND ($4::json IS NULL OR n.access_model IN (SELECT json_array_elements_text($4::json)))
    AND ($6::json IS NULL OR n.type IN (SELECT json_array_elements_text($6::json)))
    AND ($7::json IS NULL OR n.type NOT IN (SELECT json_array_elements_text($7::json)))
ORDER BY n.name DESC LIMIT $5;

-- count_nodes_of_account: their number
SELECT count(*) FROM (SELECT * FROM affiliation WHERE jid = $1 OFFSET 0) a
CROSS JOIN LATERAL (SELECT * FROM node WHERE id = a.node_id OFFSET 0) n
WHERE ($2::json IS NULL OR a.affiliation IN (SELECT json_array_elements_text($2::json)))
    AND ($3::json IS NULL OR n.access_model IN (SELECT json_array_elements_text($3::json)))
    AND ($4::json IS NULL OR n.type IN (SELECT json_array_elements_text($4::json)))
    AND ($5::json IS NULL OR n.type NOT IN (SELECT json_array_elements_text($5::json)));

-- subscriptions_of_account: subscriptions of an account, by node and JID
SELECT %(subscription)s
FROM (SELECT * FROM subscription WHERE account = $1 OFFSET 0) s
CROSS JOIN LATERAL (SELECT * FROM node WHERE id = s.node_id OFFSET 0) n
WHERE ($2::text IS NULL OR n.name = $2) AND (n.name, s.jid) > ($3, $4) ORDER BY n.name, s.jid LIMIT $5;

-- subscriptions_of_account_back: the same before a node and a JID
SELECT %(subscription)s
FROM (SELECT * FROM subscription WHERE account = $1 OFFSET 0) s CROSS JOIN LATERAL (SELECT * FROM node WHERE id = s.node_id OFFSET 0) n
WHERE ($2::text IS NULL OR n.name = $2) AND (n.name, s.jid) < ($3, $4) ORDER BY n.name DESC, s.jid DESC LIMIT $5;

-- count_subscriptions_of_account: their number
SELECT count(*) + coalesce(sum(json_array_length(s.several::json) - 1), 0)
FROM (SELECT * FROM subscription WHERE account = $1 OFFSET 0) s
CROSS JOIN LATERAL (SELECT * FROM node WHERE id = s.node_id OFFSET 0) n
WHERE ($2::text IS NULL OR n.name = $2);

-- done_items: done items of a queue, by publish time, after a time and a number
SELECT * FROM (
    SELECT %(done)s FROM done_item d WHERE d.node_id = $1 AND d.published = $2 AND (d.seq + 0) > $3 ORDER BY (d.seq + 0) LIMIT $4
) here UNION ALL SELECT * FROM (
    SELECT %(done)s FROM done_item d WHERE d.node_id = $1 AND d.published > $2 ORDER BY d.published, (d.seq + 0) LIMIT $4
) later LIMIT $4;

-- oldest: a node's items after a number, up to a number of bytes of payload and one more item
SELECT %(item)s, i.payload FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT q.seq, octet_length(q.payload) AS size FROM item q WHERE q.node_id = $1 AND q.seq > $2 ORDER BY q.seq LIMIT $3
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = f.seq OFFSET 0) i WHERE f.before <= greatest($4, 0) ORDER BY f.seq;

-- without_sum: items without a checksum, with their payloads, up to the same bytes
SELECT %(item)s, i.payload FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT q.seq, octet_length(q.payload) AS size FROM item q WHERE q.sum IS NULL ORDER BY q.seq + 0 LIMIT $1
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = f.seq OFFSET 0) i WHERE f.before <= greatest($2, 0) ORDER BY f.seq;

-- done_without_sum: done items without a checksum, with their payloads, up to the same bytes
SELECT %(done)s, d.payload FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT q.seq, octet_length(q.payload) AS size FROM done_item q WHERE q.sum IS NULL ORDER BY q.seq + 0 LIMIT $1
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM done_item WHERE seq = f.seq OFFSET 0) d WHERE f.before <= greatest($2, 0) ORDER BY f.seq;

-- newest: a node's last items before a number, the newest first, up to the same bytes
SELECT %(item)s, i.payload FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq DESC) - p.size AS before FROM (
        SELECT q.seq, octet_length(q.payload) AS size FROM item q WHERE q.node_id = $1 AND q.seq < $2 ORDER BY q.seq DESC LIMIT $3
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = f.seq OFFSET 0) i WHERE f.before <= greatest($4, 0) ORDER BY f.seq DESC;

-- held_numbers: the numbers of the items that some JIDs hold of a node
SELECT i.seq FROM json_array_elements_text($2::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM item WHERE left(holder, 500) = left(k.value, 500) AND holder = k.value OFFSET 0) i
WHERE i.node_id = $1;

-- numbered: items of these numbers, in their order, up to the same bytes
SELECT %(item)s, i.payload FROM (
    SELECT k.value, k.place, sum(octet_length(q.payload)) OVER (ORDER BY k.place) - octet_length(q.payload) AS before
    FROM json_array_elements_text($1::json) WITH ORDINALITY k(value, place)
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = k.value::bigint OFFSET 0) q
) f
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = f.value::bigint OFFSET 0) i WHERE f.before <= greatest($2, 0) ORDER BY f.place;

-- dead: items that died here or were moved here dead, and are not locked
SELECT %(item)s FROM item i
WHERE i.node_id = $1 AND i.dead_at IS NOT NULL AND i.state != 'locked' AND i.seq > $2 ORDER BY i.seq LIMIT $3;

-- locks_from_last: all locks, the last to end first: the rest of those that end together, then earlier ones
(
    SELECT %(item)s FROM item i JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'locked' AND i.deadline = $1 AND i.seq < $2 ORDER BY i.seq DESC LIMIT $3
) UNION ALL (
    SELECT %(item)s FROM item i JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'locked' AND i.deadline < $1 ORDER BY i.deadline DESC, i.seq DESC LIMIT $3
) LIMIT $3;

-- delayed_from_last: all delayed items, the last to be due first, in two parts likewise
(
    SELECT %(item)s FROM item i JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'delayed' AND i.due = $1 AND i.seq < $2 ORDER BY i.seq DESC LIMIT $3
) UNION ALL (
    SELECT %(item)s FROM item i JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'delayed' AND i.due < $1 ORDER BY i.due DESC, i.seq DESC LIMIT $3
) LIMIT $3;

-- items_from_last: items of all nodes before a number, the newest first
SELECT %(item)s FROM item i JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
WHERE i.seq < $1 ORDER BY i.seq DESC LIMIT $2;

-- locks: locked items, after a deadline and a number; in two parts, because one condition would walk all of a deadline
(
    SELECT %(item)s FROM item i JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'locked' AND i.deadline = $1 AND i.seq > $2 ORDER BY i.seq LIMIT $3
) UNION ALL (
    SELECT %(item)s FROM item i JOIN contents c ON c.id = i.node_id AND c.node_id IS NOT NULL
    WHERE i.state = 'locked' AND i.deadline > $1 ORDER BY i.deadline, i.seq LIMIT $3
) LIMIT $3;

-- held_by: items locked to a JID, in any node or in one, after a number; its items are sorted for each page
SELECT %(item)s FROM (SELECT * FROM item WHERE left(holder, 500) = left($1, 500) AND holder = $1 OFFSET 0) i
CROSS JOIN LATERAL (SELECT FROM contents WHERE id = i.node_id AND node_id IS NOT NULL OFFSET 0) c
WHERE i.seq > $2 AND ($3::bigint IS NULL OR i.node_id = $3) ORDER BY i.seq LIMIT $4;

-- count_held_by: their number
SELECT count(*) FROM (SELECT * FROM item WHERE left(holder, 500) = left($1, 500) AND holder = $1 OFFSET 0) i
CROSS JOIN LATERAL (SELECT FROM contents WHERE id = i.node_id AND node_id IS NOT NULL OFFSET 0) c
WHERE $2::bigint IS NULL OR i.node_id = $2;

-- holders_of: addresses that hold items and match a pattern, by address
SELECT DISTINCT holder FROM item
WHERE left(holder, 500) >= left($1 COLLATE "C", 500) AND holder > $1 AND holder LIKE $2 ESCAPE '!' ORDER BY holder LIMIT $3;

-- known_resources: the known full JIDs of all accounts, by address
SELECT jid FROM resource WHERE left(jid, 500) >= left($1 COLLATE "C", 500) AND jid > $1 COLLATE "C" ORDER BY jid COLLATE "C" LIMIT $2;

-- held_of: how many items of nodes all addresses of accounts hold: a list of contents and accounts; "0" is the character after "/"
SELECT h.held FROM json_array_elements($1::json) WITH ORDINALITY k(value, at) CROSS JOIN LATERAL (
    SELECT count(*) AS held FROM (
        SELECT node_id, holder FROM item
        WHERE left(holder, 500) >= left((k.value->>1) COLLATE "C", 500)
            AND left(holder, 500) <= left(((k.value->>1) || '0') COLLATE "C", 500)
            AND (holder = k.value->>1 OR starts_with(holder, (k.value->>1) || '/')) OFFSET 0
    ) i WHERE i.node_id = (k.value->>0)::bigint
) h ORDER BY k.at;

-- shown: a page of a node's items, with their sizes
SELECT %(item)s, octet_length(i.payload), CASE WHEN $5 THEN i.payload END FROM (
    SELECT p.seq, CASE WHEN $5 THEN sum(p.size) OVER (ORDER BY p.seq) - p.size ELSE 0 END AS before FROM (
        SELECT q.seq, octet_length(q.payload) AS size FROM item q
        WHERE q.node_id = $1 AND q.seq > $2 AND q.seq <= $3 AND ($4::text IS NULL OR q.state = $4)
        ORDER BY q.seq LIMIT $6
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = f.seq OFFSET 0) i WHERE f.before <= greatest($7, 0) ORDER BY f.seq;

-- shown_dead: a page of a node's dead, by their deaths
SELECT %(item)s, octet_length(i.payload), CASE WHEN $5 THEN i.payload END FROM (
    SELECT p.seq, p.death, CASE WHEN $5 THEN sum(p.size) OVER (ORDER BY p.death) - p.size ELSE 0 END AS before FROM (
        SELECT q.seq, q.death, octet_length(q.payload) AS size FROM item q
        WHERE q.node_id = $1 AND q.death > $2 AND q.death <= $3 AND $4::text = 'dead' ORDER BY q.death LIMIT $6
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = f.seq OFFSET 0) i WHERE f.before <= greatest($7, 0) ORDER BY f.death;

-- newest_done: the highest number of a done item of a queue
SELECT coalesce(max(seq + 0), 0) FROM done_item WHERE node_id = $1;

-- done_named: the done items of an id in a queue, the newest first
SELECT %(done)s FROM done_item d WHERE d.node_id = $1 AND d.id = $2 ORDER BY (d.seq + 0) DESC LIMIT $3;

-- shown_done: a page of a queue's done items
SELECT %(done)s, octet_length(d.payload), CASE WHEN $5 THEN d.payload END FROM (
    SELECT p.seq, CASE WHEN $5 THEN sum(p.size) OVER (ORDER BY p.seq) - p.size ELSE 0 END AS before FROM (
        SELECT q.seq, octet_length(q.payload) AS size FROM done_item q
        WHERE q.node_id = $1 AND (q.seq + 0) > $2 AND (q.seq + 0) <= $3 AND $4::text = 'done' ORDER BY (q.seq + 0) LIMIT $6
    ) p
) f
CROSS JOIN LATERAL (SELECT * FROM done_item WHERE seq = f.seq OFFSET 0) d WHERE f.before <= greatest($7, 0) ORDER BY f.seq;

-- node_entries: nodes with their items by state; locked items are found by their locks, because there are few
WITH locked(node_id, items) AS MATERIALIZED (
    SELECT node_id, count(*) FROM item WHERE state = 'locked' GROUP BY node_id
)
SELECT %(node)s,
    coalesce($4::bigint, (SELECT count(*) FROM item WHERE node_id = c.id AND %(ready)s) + (
        SELECT count(*) FROM item WHERE node_id = c.id AND state = 'queued' AND group_name <> '' AND turn IS NULL
    )),
    coalesce((SELECT items FROM locked WHERE node_id = c.id), 0),
    w.items, w.oldest,
    coalesce($5::bigint, (SELECT count(*) FROM item WHERE node_id = c.id AND death IS NOT NULL AND state = 'dead')),
    (SELECT coalesce(sum(greatest(0, queue_requests - in_flight)), 0)::bigint FROM subscription WHERE node_id = n.id AND available),
    (SELECT published FROM item WHERE seq = (
        -- the oldest of each priority is the first of it: one step of the index to each; only of groups there are others
        WITH RECURSIVE level(priority) AS (
            SELECT max(priority) FROM item WHERE node_id = c.id AND %(ready)s
            UNION ALL SELECT (
                SELECT max(priority) FROM item WHERE node_id = c.id AND %(ready)s AND priority < level.priority
            ) FROM level WHERE level.priority IS NOT NULL
        )
        SELECT min(o.seq) FROM (
            SELECT (
                SELECT seq FROM item WHERE node_id = c.id AND %(ready)s AND priority = level.priority ORDER BY %(place)s LIMIT 1
            ) AS seq FROM level WHERE level.priority IS NOT NULL
            UNION ALL SELECT min(seq) FROM item WHERE node_id = c.id AND state = 'queued' AND group_name <> ''
        ) o
    ))
FROM json_array_elements_text($1::json) k(value) JOIN node n ON n.name = k.value JOIN contents c ON c.node_id = n.id
-- held items are counted one by one anyway, and the oldest is found on the way
CROSS JOIN LATERAL (SELECT count(*) AS items, min(published) AS oldest FROM item WHERE node_id = c.id AND state = 'held') w
WHERE n.name > $2 ORDER BY n.name LIMIT $3;

-- affiliations_among: the affiliations with some nodes, up to so many of each
SELECT n.name, a.node_id, a.jid, a.affiliation, a.sum FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM node WHERE name = k.value OFFSET 0) n
CROSS JOIN LATERAL (SELECT * FROM affiliation WHERE node_id = n.id ORDER BY jid LIMIT $2) a
ORDER BY n.name, a.jid LIMIT $3;

-- count_queued: how many items are ready after a priority and a place, counted up to a limit
SELECT count(*) FROM (
    (SELECT 1 FROM item WHERE node_id = $1 AND %(ready)s AND priority = $2 AND %(place)s > $3 LIMIT $4)
    UNION ALL
    (SELECT 1 FROM item WHERE node_id = $1 AND %(ready)s AND priority < $2 LIMIT $4)
    LIMIT $4
) q;

-- newest_items: the highest number of an item in each of some nodes
SELECT n.name, m.newest FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM node WHERE name = k.value OFFSET 0) n
CROSS JOIN LATERAL (SELECT * FROM contents WHERE node_id = n.id OFFSET 0) c
CROSS JOIN LATERAL (SELECT max(seq) AS newest FROM item WHERE node_id = c.id) m
WHERE m.newest IS NOT NULL LIMIT $2;

-- count_too_large: how many of the first ready items have more than this many bytes of payload
SELECT count(*) FROM (
    SELECT payload FROM item WHERE node_id = $1 AND %(ready)s ORDER BY priority DESC, %(place)s LIMIT $3
) q WHERE octet_length(q.payload) > $2;

-- queued_end: the last of this many ready items after a priority and a place
SELECT q.priority, q.place FROM (
    (SELECT priority, %(place)s AS place FROM item WHERE node_id = $1 AND %(ready)s AND priority = $2 AND %(place)s > $3
     ORDER BY %(place)s LIMIT $4)
    UNION ALL
    (SELECT priority, %(place)s FROM item WHERE node_id = $1 AND %(ready)s AND priority < $2
     ORDER BY priority DESC, %(place)s LIMIT $4)
) q LIMIT 1 OFFSET $4 - 1;

-- count_line: of the next queued items of groups: how many have no turn, how many were examined, and the last one
SELECT count(*) FILTER (WHERE l.turn IS NULL), count(*), max(l.seq) FROM (
    SELECT seq, turn FROM item WHERE node_id = $1 AND state = 'queued' AND group_name <> '' AND seq > $2
    ORDER BY node_id, seq LIMIT $3
) l;

-- group_turns: how many current turns groups have: a list of contents and names
SELECT t.turns FROM json_array_elements($1::json) WITH ORDINALITY k(value, at) CROSS JOIN LATERAL (
    SELECT count(*) AS turns FROM (
        SELECT turn FROM item WHERE node_id = (k.value->>0)::bigint AND group_name = k.value->>1 AND turn IS NOT NULL
        ORDER BY turn LIMIT 1000 -- a limit is no higher; the order has the index used, however little was counted
    ) i
) t ORDER BY k.at;

-- group_taken: the items of groups that have turns
SELECT %(item)s FROM json_array_elements($1::json) k(value) CROSS JOIN LATERAL (
    SELECT * FROM item WHERE node_id = (k.value->>0)::bigint AND group_name = k.value->>1 AND turn IS NOT NULL
    ORDER BY node_id, group_name, turn LIMIT 1000 -- a limit is no higher; the order has the index used, however little was counted
) i;

-- group_lines: the first waiting items of groups, up to a number of each
SELECT %(item)s FROM json_array_elements($1::json) k(value) CROSS JOIN LATERAL (
    SELECT * FROM item WHERE node_id = (k.value->>0)::bigint AND group_name = k.value->>1
        AND state = 'queued' AND group_name IS NOT NULL AND turn IS NULL
    ORDER BY node_id, group_name, seq LIMIT $2
) i;

-- groups_ready: the items of groups that can be delivered, up to a number of each, only payloads up to a size
SELECT %(item)s FROM json_array_elements($1::json) k(value) CROSS JOIN LATERAL (
    SELECT t.* FROM (
        SELECT * FROM item WHERE node_id = (k.value->>0)::bigint AND group_name = k.value->>1 AND turn IS NOT NULL
        ORDER BY node_id, group_name, turn LIMIT 1000 -- a limit is no higher; the order has the index used, however little was counted
    ) t WHERE t.state = 'queued' AND (t.expires IS NULL OR t.expires > $2) AND octet_length(t.payload) <= $3
    ORDER BY t.priority DESC, t.turn LIMIT $4
) i;

-- groups_with_turns: groups of a node with items that have turns, by name; one step of the index to each
WITH RECURSIVE walk(name) AS (
    SELECT min(group_name) FROM item WHERE node_id = $1 AND turn IS NOT NULL AND group_name > $2
    UNION ALL SELECT (
        SELECT min(group_name) FROM item WHERE node_id = $1 AND turn IS NOT NULL AND group_name > walk.name
    ) FROM walk WHERE walk.name IS NOT NULL
)
SELECT w.name FROM (SELECT walk.name FROM walk LIMIT $3) w WHERE w.name IS NOT NULL;

-- waiting_groups: groups of a node with waiting items, by name; one step of the index to each
WITH RECURSIVE walk(name) AS (
    SELECT min(group_name) FROM item
    WHERE node_id = $1 AND state = 'queued' AND group_name IS NOT NULL AND turn IS NULL AND group_name > $2
    UNION ALL SELECT (
        SELECT min(group_name) FROM item
        WHERE node_id = $1 AND state = 'queued' AND group_name IS NOT NULL AND turn IS NULL AND group_name > walk.name
    ) FROM walk WHERE walk.name IS NOT NULL
)
SELECT w.name FROM (SELECT walk.name FROM walk LIMIT $3) w WHERE w.name IS NOT NULL;

-- open_records: a page of open versions, of which there are few
SELECT %(record)s
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NULL AND t.id > $1 AND p.name = coalesce($2::text, p.name) AND t.owner = coalesce($3::text, t.owner)
ORDER BY t.id LIMIT $4;

-- records: a page of committed versions, of all apps and owners
SELECT %(record)s
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NOT NULL AND t.id > $1 AND coalesce($2::text, $3::text) IS NULL ORDER BY t.id LIMIT $4;

-- records_of_owner: the records of an account
SELECT %(record)s
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NOT NULL AND $2::text IS NULL AND t.owner = $3::text AND t.id > $1 ORDER BY t.id LIMIT $4;

-- anything_to_sweep: whether a sweep has anything to delete
SELECT EXISTS (SELECT 1 FROM attempt WHERE txn_id IS NULL)
    OR EXISTS (SELECT 1 FROM contents WHERE node_id IS NULL)
    OR EXISTS (SELECT 1 FROM former_node WHERE NOT telling)
    OR EXISTS (SELECT 1 FROM txn t WHERE t.committed IS NOT NULL AND t.committed < $1 AND t.until < $1
               AND NOT EXISTS (SELECT 1 FROM attempt WHERE txn_id = t.id AND committed))
    OR EXISTS (SELECT 1 FROM txn_app p WHERE used < $1 AND coalesce(committed, used) < $1
               AND NOT EXISTS (SELECT 1 FROM txn t WHERE t.app_id = p.id));

-- contents_of_item: the contents of all items, by number
SELECT i.seq, 0, n.name, i.id, coalesce(i.group_name, ''), i.headers, i.sum, i.payload, i.wait, i.joins
FROM item i JOIN contents c ON c.id = i.node_id JOIN node n ON n.id = c.node_id
WHERE i.seq > $1 AND $2::bigint <= 0 ORDER BY i.seq LIMIT $3;

-- contents_of_done_item: the same of done items
SELECT i.seq, 0, n.name, i.id, coalesce(i.group_name, ''), i.headers, i.sum, i.payload, NULL, NULL
FROM done_item i JOIN contents c ON c.id = i.node_id JOIN node n ON n.id = c.node_id
WHERE i.seq > $1 AND $2::bigint <= 0 ORDER BY i.seq LIMIT $3;

-- contents_of_staged: the contents of all staged items, by attempt and row
SELECT s.attempt_id, s.place, s.node, s.id, coalesce(s.group_name, ''), s.headers, s.sum, s.payload, NULL, NULL
FROM staged s WHERE (s.attempt_id, s.place) > ($1, $2) ORDER BY s.attempt_id, s.place LIMIT $3;

-- winner_rows: the rows of an attempt after a row, and which other attempts have the same ids, up to a number of
-- bytes of payload and one more row
SELECT s.place, s.node, s.id, s.state, s.priority, s.pause, s.life, s.known, s.size, s.headers, s.group_name, s.sum, (
    SELECT string_agg(o.attempt_id::text, ',') FROM staged o
    WHERE o.txn_id = s.txn_id AND o.node = s.node AND o.id = s.id AND o.attempt_id != s.attempt_id
), s.payload
FROM (
    SELECT p.place, sum(p.size) OVER (ORDER BY p.place) - p.size AS before FROM (
        SELECT q.place, octet_length(q.payload) AS size FROM staged q
        WHERE q.attempt_id = $1 AND q.place > $2 ORDER BY q.place LIMIT $3
    ) p
) f JOIN staged s ON s.attempt_id = $1 AND s.place = f.place WHERE f.before <= greatest($4, 0) ORDER BY f.place;

-- unmoved: committed versions with winners that still have to be moved
SELECT %(record)s FROM (SELECT DISTINCT txn_id FROM attempt WHERE committed) a
JOIN txn t ON t.id = a.txn_id JOIN txn_app p ON p.id = t.app_id ORDER BY t.id LIMIT $1;

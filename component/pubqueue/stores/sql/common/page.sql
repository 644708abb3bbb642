-- Pages of rows, as far as both dialects say the same. See `relational/statements.py`.

-- page_nodes: nodes by name
SELECT n.id, n.name, n.config, n.creator, n.created, n.items, n.subscriptions, n.spent, n.bytes
FROM node n WHERE n.name > $1 ORDER BY n.name LIMIT $2;

-- page_nodes_back: nodes by name
SELECT n.id, n.name, n.config, n.creator, n.created, n.items, n.subscriptions, n.spent, n.bytes
FROM node n WHERE n.name < $1 ORDER BY n.name DESC LIMIT $2;

-- count_nodes: how many nodes there are
SELECT count(*) FROM node;

-- count_subscriptions_of: how many that are
SELECT (SELECT count(*) FROM subscription WHERE node_id = $1 AND state = $2) + (
    SELECT coalesce(sum(json_array_length(several::json) - 1), 0) FROM subscription
    WHERE node_id = $1 AND state = $2 AND several IS NOT NULL
);

-- connections_of: subscriptions whose addresses look so, by number
SELECT id, jid FROM subscription WHERE id > $1 AND jid LIKE $2 ESCAPE '!' ORDER BY id LIMIT $3;

-- trims: nodes whose items are to be trimmed
SELECT n.name FROM trim t %(join)s node n ON n.id = t.node_id WHERE n.name > $1 ORDER BY n.name LIMIT $2;

-- moved_to: where a deleted node is
SELECT uri FROM moved_node WHERE name = $1;

-- affiliations_of: everybody who is something to a node
SELECT jid, affiliation FROM affiliation
WHERE node_id = $1 AND jid > $2 AND ($4::json IS NULL OR affiliation IN %(list 4)s)
ORDER BY jid LIMIT $3;

-- affiliations_of_back: the same in front of a JID
SELECT jid, affiliation FROM affiliation
WHERE node_id = $1 AND jid < $2 AND ($4::json IS NULL OR affiliation IN %(list 4)s)
ORDER BY jid DESC LIMIT $3;

-- count_affiliations_of: how many are something to a node
SELECT count(*) FROM affiliation
WHERE node_id = $1 AND ($2::json IS NULL OR affiliation IN %(list 2)s);

-- item_ids: the ids of a node's items, oldest first
SELECT i.id FROM item i WHERE i.node_id = $1 AND i.seq > $2 ORDER BY i.seq LIMIT $3;

-- item_ids_back: the same in front of a number
SELECT i.id FROM item i WHERE i.node_id = $1 AND i.seq < $2 ORDER BY i.seq DESC LIMIT $3;

-- created: the items of a node behind a place, by place: those that overwrote nothing, and those that did
SELECT place, seq FROM (
    SELECT * FROM (
        SELECT i.seq AS place, i.seq FROM item i
        WHERE i.node_id = $1 AND i.seq > $2 AND NOT EXISTS (SELECT 1 FROM overwritten o WHERE o.seq = i.seq)
        ORDER BY i.seq LIMIT $3
    ) a UNION ALL SELECT * FROM (
        SELECT o.place, o.seq FROM overwritten o %(join)s item i ON i.seq = o.seq
        WHERE o.contents_id = $1 AND o.place > $2 ORDER BY o.place LIMIT $3
    ) b
) c ORDER BY place LIMIT $3;

-- created_back: the items of a node in front of a place, by place: those that overwrote nothing, and those that did
SELECT place, seq FROM (
    SELECT * FROM (
        SELECT i.seq AS place, i.seq FROM item i
        WHERE i.node_id = $1 AND i.seq < $2 AND NOT EXISTS (SELECT 1 FROM overwritten o WHERE o.seq = i.seq)
        ORDER BY i.seq DESC LIMIT $3
    ) a UNION ALL SELECT * FROM (
        SELECT o.place, o.seq FROM overwritten o %(join)s item i ON i.seq = o.seq
        WHERE o.contents_id = $1 AND o.place < $2 ORDER BY o.place DESC LIMIT $3
    ) b
) c ORDER BY place DESC LIMIT $3;

-- modified: the items of a node behind a number, by number
SELECT i.seq, i.seq FROM item i WHERE i.node_id = $1 AND i.seq > $2 ORDER BY i.seq LIMIT $3;

-- modified_back: the items of a node in front of a number, by number
SELECT i.seq, i.seq FROM item i WHERE i.node_id = $1 AND i.seq < $2 ORDER BY i.seq DESC LIMIT $3;

-- place_of: where an item stands among the created ones
SELECT coalesce((SELECT place FROM overwritten WHERE seq = $1), $1::bigint);

-- stride: the number of an item so far behind another
SELECT i.seq FROM item i WHERE i.node_id = $1 AND i.seq > $2 ORDER BY i.seq LIMIT 1 OFFSET $3::bigint - 1;

-- newest_item: the highest number of an item in a node
SELECT coalesce(max(seq), 0) FROM item WHERE node_id = $1;

-- newest_death: the highest number of a death in a node
SELECT coalesce(max(death), 0) FROM item WHERE node_id = $1 AND death IS NOT NULL;

-- count_dead: how many of the next dead letters lie there, how many of them were looked at, and the last one
SELECT count(*) FILTER (WHERE d.state = 'dead'), count(*), max(d.death) FROM (
    SELECT death, state FROM item WHERE node_id = $1 AND death IS NOT NULL AND death > $2 ORDER BY death LIMIT $3
) d;

-- events: a page of the log
SELECT e.seq, e.at, e.kind, n.name, e.item, e.attempt, e.worker, e.publisher, e.age, e.held, e.origin, e.went_to, e.detail
FROM event e %(join)s node n ON n.id = e.node_id
WHERE e.seq > $1 AND e.seq <= $2 AND ($3::json IS NULL OR n.name IN %(list 3)s)
    AND ($4::text IS NULL OR EXISTS (
        SELECT 1 FROM affiliation a
        WHERE a.node_id = n.id AND a.jid = $4::text AND a.affiliation IN %(list 5)s
    ))
ORDER BY e.seq LIMIT $6;

-- log_ends: the oldest and the newest event; each is one end of the table
SELECT coalesce((SELECT min(seq) FROM event), 0), coalesce((SELECT max(seq) FROM event), 0);

-- aged: the last of the oldest events that is from before a moment
SELECT max(e.seq) FROM (SELECT seq, at FROM event ORDER BY seq LIMIT $2) e WHERE e.at < $1;

-- records_of_app: those of an app; whose it is does not change
SELECT t.id, p.name, t.owner, t.version, t.began, t.committed, t.items, t.bytes, t.skipped, t.dead_lettered, t.seconds,
    t.on_taken, t.dead_letter_node
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NOT NULL AND t.app_id = (SELECT id FROM txn_app WHERE name = $2 AND owner = coalesce($3::text, owner))
    AND t.id > $1
ORDER BY t.id LIMIT $4;

-- record: a committed version of an app
SELECT t.id, p.name, t.owner, t.version, t.began, t.committed, t.items, t.bytes, t.skipped, t.dead_lettered, t.seconds,
    t.on_taken, t.dead_letter_node
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE p.name = $1 AND t.version = $2 AND t.committed IS NOT NULL;

-- forgettable: how many ids of finished work no longer count, counted as far as a limit
SELECT count(*) FROM (SELECT 1 FROM finished WHERE until <= $1 LIMIT $2) old;

-- attempts_of: what each attempt of an open version has staged
SELECT p.name, t.version, a.part, a.number, a.items, a.bytes, a.known, a.grouped, a.id FROM txn_app p
JOIN txn t ON t.app_id = p.id JOIN attempt a ON a.txn_id = t.id
WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL ORDER BY a.part, a.number LIMIT $3;

-- winner_attempts: attempts at a version, whether it is open or committed
SELECT a.part, a.number, a.id, a.committed FROM txn_app p
JOIN txn t ON t.app_id = p.id JOIN attempt a ON a.txn_id = t.id
WHERE p.name = $1 AND t.version = $2 ORDER BY a.part, a.number;

-- open_version: the row of an open version
SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL;

-- Commits, aborts and sweeps. A commit works with two tables, filled for it alone: the winners, and the conflicts of
-- their ids. Their contents are valid only within the transaction, and only the writer uses them.

-- add_winner: the attempt that counts for each part
INSERT INTO winner (part, attempt_id) SELECT * FROM unnest($1::bigint[], $2::bigint[]);

-- node_winners: for each node the winners' rows and ids
SELECT a.node, sum(a.rows)::bigint, count(*) FROM (
    SELECT s.node, s.id, count(*) AS rows FROM winner w JOIN staged s ON s.attempt_id = w.attempt_id
    WHERE s.txn_id = $1 GROUP BY s.node, s.id
) a GROUP BY a.node ORDER BY a.node LIMIT $2;

-- add_conflicts_with_each_other: winners with the same id, except the last
INSERT INTO met (attempt_id, place, node, id)
SELECT s.attempt_id, s.place, s.node, s.id FROM (
    SELECT s.node AS node, s.id AS id, max(w.part) AS last FROM winner w JOIN staged s ON s.attempt_id = w.attempt_id
    WHERE s.txn_id = $1 GROUP BY s.node, s.id HAVING count(*) > 1
) twice
JOIN staged s ON s.txn_id = $1 AND s.node = twice.node AND s.id = twice.id
JOIN winner w ON w.attempt_id = s.attempt_id WHERE w.part < twice.last;

-- add_conflicts_with_items: winners whose id exists; equal bytes mean the same payload
INSERT INTO met (attempt_id, place, node, id, item_seq, state, same)
SELECT s.attempt_id, s.place, s.node, s.id, i.seq, i.state, CASE WHEN i.payload = s.payload THEN true END
FROM winner w JOIN staged s ON s.attempt_id = w.attempt_id
JOIN node n ON n.name = s.node JOIN contents c ON c.node_id = n.id
JOIN item i ON i.node_id = c.id AND i.id = s.id
WHERE s.txn_id = $1
ON CONFLICT DO NOTHING;

-- add_conflicts_with_finished: winners whose id is that of finished work that still counts
INSERT INTO met (attempt_id, place, node, id, state)
SELECT s.attempt_id, s.place, s.node, s.id, 'finished'
FROM winner w JOIN staged s ON s.attempt_id = w.attempt_id
JOIN finished f ON f.node_id = $1 AND f.id = s.id AND f.until > $2 AND f.until <= $3
WHERE s.node = $4
ON CONFLICT DO NOTHING;

-- conflicts_to_compare: winners of a node whose payloads still have to be compared with those of the existing items
SELECT m.attempt_id, m.place, m.item_seq IS NULL,
    coalesce((SELECT payload FROM item WHERE seq = m.item_seq),
             (SELECT digest FROM finished f JOIN node n ON n.id = f.node_id WHERE n.name = m.node AND f.id = m.id)),
    s.payload
FROM met m JOIN staged s ON s.attempt_id = m.attempt_id AND s.place = m.place
WHERE m.node = $1 AND m.state IS NOT NULL AND m.same IS NULL LIMIT $2;

-- note_compared: the result of these comparisons
UPDATE met SET same = v.same FROM (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::boolean[], $2::bigint[], $3::bigint[]) v(same, attempt_id, place)
    CROSS JOIN LATERAL (SELECT ctid FROM met WHERE attempt_id = v.attempt_id AND place = v.place OFFSET 0) x
) v WHERE met.ctid = v.at_row;

-- drop_conflicts: winners that do not conflict after all
DELETE FROM met USING (
    SELECT v.*, x.ctid AS at_row FROM unnest($1::bigint[], $2::bigint[]) v(attempt_id, place)
    CROSS JOIN LATERAL (SELECT ctid FROM met WHERE attempt_id = v.attempt_id AND place = v.place OFFSET 0) x
) v WHERE met.ctid = v.at_row;

-- conflicts_in_the_way: winners of a node whose ids belong to locked or dead items with other payloads
SELECT id, state FROM met WHERE node = $1 AND NOT same AND state IN ('locked', 'held', 'dead') ORDER BY id LIMIT $2;

-- drop_winners: drop these winners, as if later ones superseded them
UPDATE met SET state = NULL, item_seq = NULL, same = NULL WHERE NOT same AND state IN ('locked', 'held', 'dead');

-- move_winners_elsewhere: move these winners to another node, under unused ids (rules/moving.py)
UPDATE staged SET node = $1::text, sum = NULL, id = CASE WHEN octet_length(%(joined)s || '.' || $2::bigint) <= 1023
    THEN %(joined)s || '.' || $2::bigint
    ELSE left(%(joined)s, 100) || '.' || $2::bigint || '.' || attempt_id || '.' || place END
WHERE (attempt_id, place) IN (
    SELECT attempt_id, place FROM met WHERE NOT same AND state IN ('locked', 'held', 'dead')
);

-- drop_conflicts_of_node: remove their conflicts, because they have none in that node
DELETE FROM met WHERE NOT same AND state IN ('locked', 'held', 'dead');

-- winning_drafts: the winners of a node, without superseded ones
SELECT s.id, s.payload, s.priority, coalesce(s.pause, 0), s.life, s.headers, s.sum
FROM winner w JOIN staged s ON s.attempt_id = w.attempt_id
LEFT JOIN met m ON m.attempt_id = s.attempt_id AND m.place = s.place
WHERE s.node = $1 AND (m.attempt_id IS NULL OR m.state IS NOT NULL) ORDER BY w.part, s.place LIMIT $2;

-- winning_bytes: how many bytes the winners add to each node: as a queue, and as a plain node; and the
-- bytes of those whose ids are taken
SELECT s.node,
    sum(CASE WHEN m.attempt_id IS NULL THEN s.size WHEN NOT m.same AND i.state IN ('queued', 'delayed') THEN s.size - i.size ELSE 0 END)::bigint,
    sum(s.size - coalesce(i.size, 0))::bigint,
    sum(CASE WHEN NOT m.same AND i.state IN ('locked', 'held', 'dead') THEN s.size ELSE 0 END)::bigint
FROM winner w CROSS JOIN LATERAL (SELECT * FROM staged WHERE attempt_id = w.attempt_id OFFSET 0) s
LEFT JOIN met m ON m.attempt_id = s.attempt_id AND m.place = s.place LEFT JOIN item i ON i.seq = m.item_seq
WHERE m.attempt_id IS NULL OR i.seq IS NOT NULL GROUP BY s.node;

-- replace_payload: replace the payloads of unlocked items of a queue
UPDATE item SET payload = s.payload, size = s.size, headers = s.headers,
    sum = CASE WHEN item.group_name IS NULL THEN s.sum END, wait = NULL, publisher = $2, txn_app = $3, txn_version = $4 FROM met m
JOIN staged s ON s.attempt_id = m.attempt_id AND s.place = m.place
WHERE item.seq = m.item_seq AND m.node = $1 AND NOT m.same AND item.state IN ('queued', 'delayed');

-- add_items_of_winners: the winners take their places, by part and then in their order; the numbers continue from the first that is
-- reserved for them
INSERT INTO item (seq, node_id, id, state, publisher, published, priority, due, expires, txn_app, txn_version, headers, size,
    sum, payload)
SELECT $5::bigint - 1 + row_number() OVER (ORDER BY w.part, s.place), (
        SELECT c.id FROM node n JOIN contents c ON c.node_id = n.id WHERE n.name = s.node
    ), s.id, s.state, $1::text, $2::bigint, s.priority, $2::bigint + s.pause, $2::bigint + s.life, $3::text, $4::bigint,
    s.headers, s.size, s.sum, s.payload
FROM winner w JOIN staged s ON s.attempt_id = w.attempt_id
WHERE NOT EXISTS (SELECT 1 FROM met m WHERE m.attempt_id = s.attempt_id AND m.place = s.place)
ORDER BY w.part, s.place;

-- keep_winners: the winning attempts at an open version, from a list of parts with attempt numbers
UPDATE attempt SET committed = true
WHERE txn_id = (SELECT id FROM txn WHERE app_id = $1 AND version = $2 AND committed IS NULL)
    AND (part, number) IN (SELECT (k.value->>0)::bigint, (k.value->>1)::bigint FROM json_array_elements($3::json) k(value))
RETURNING txn_id;

-- drop_moved: delete rows that have been moved
DELETE FROM staged WHERE place <= $4 AND attempt_id = (
    SELECT a.id FROM txn_app p JOIN txn t ON t.app_id = p.id AND t.version = $2
    JOIN attempt a ON a.txn_id = t.id AND a.part = $3 AND a.committed WHERE p.name = $1
);

-- count_aside: how many of the winners were left out, and how many dead-lettered
UPDATE txn SET items = items - $3,
    skipped = CASE WHEN $3 = 0 THEN skipped ELSE coalesce(skipped, 0) + $3 END,
    dead_lettered = CASE WHEN $4 = 0 THEN dead_lettered ELSE coalesce(dead_lettered, 0) + $4 END
WHERE app_id = (SELECT id FROM txn_app WHERE name = $1) AND version = $2 AND committed IS NOT NULL;

-- note_use: set the time of an app's last use
UPDATE txn_app SET used = greatest(used, $1) WHERE id = $2;

-- staged_by: the rows that some attempts at a version have staged: a list of parts with numbers
SELECT coalesce(sum(a.items), 0)::bigint, coalesce(sum(a.bytes), 0)::bigint FROM json_array_elements($2::json) k(value)
JOIN attempt a ON a.txn_id = $1 AND a.part = (k.value->>0)::bigint AND a.number = (k.value->>1)::bigint;

-- drop_named: drop attempts at a version
UPDATE attempt SET txn_id = NULL WHERE txn_id = $1
AND (part, number) IN (SELECT (k.value->>0)::bigint, (k.value->>1)::bigint FROM json_array_elements($2::json) k(value));

-- drop_orphans: items whose contents belong to no node, by their numbers
DELETE FROM item WHERE seq IN (SELECT value::bigint FROM json_array_elements_text($1::json));

-- sweep_staged: a slice of the rows that belong to no attempt, and of their bytes
DELETE FROM staged WHERE (attempt_id, place) IN (
    SELECT attempt_id, place FROM (
        SELECT attempt_id, place, sum(size) OVER (ORDER BY attempt_id, place) - size AS before FROM (
            SELECT s.attempt_id, s.place, s.size FROM attempt a JOIN staged s ON s.attempt_id = a.id WHERE a.txn_id IS NULL LIMIT $1
        ) found
    ) summed WHERE before < $2
);

-- sweep_subscriptions: a slice of the subscriptions to deleted nodes whose subscribers need no further notice
DELETE FROM subscription WHERE id IN (
    SELECT s.id FROM former_node f JOIN subscription s ON s.node_id = f.id WHERE NOT f.telling LIMIT $1
);

-- sweep_affiliations: a slice of the affiliations with deleted nodes
DELETE FROM affiliation WHERE (node_id, jid) IN (
    SELECT a.node_id, a.jid FROM former_node f JOIN affiliation a ON a.node_id = f.id WHERE NOT f.telling LIMIT $1
);

-- sweep_nodes: deleted nodes without any rows left
DELETE FROM former_node WHERE id IN (
    SELECT f.id FROM former_node f WHERE NOT f.telling AND NOT EXISTS (SELECT 1 FROM subscription WHERE node_id = f.id)
        AND NOT EXISTS (SELECT 1 FROM affiliation WHERE node_id = f.id) LIMIT $1
);

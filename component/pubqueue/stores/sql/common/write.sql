-- Rows as they are written, as far as both dialects say the same. See `relational/statements.py`.

-- number: reserve numbers of a sequence; it begins with 1
INSERT INTO sequence AS s (name, next) VALUES ($2, 1 + $1::bigint)
ON CONFLICT (name) DO UPDATE SET next = s.next + $1::bigint RETURNING next - $1::bigint;

-- add_node: a node that was not there
INSERT INTO node (name, config, creator, created, items, subscriptions, spent, bytes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- config: the settings of a node
SELECT config FROM node WHERE id = $1;

-- configure: other settings
UPDATE node SET config = $1, creator = $2 WHERE id = $3;

-- drop_node: a node; its contents are nobody's then
DELETE FROM node WHERE id = $1;

-- drop_subscriptions: those to a deleted node, so many at most
DELETE FROM subscription WHERE id IN (SELECT id FROM subscription WHERE node_id = $1 LIMIT $2);

-- drop_affiliations: those to a deleted node, so many at most
DELETE FROM affiliation WHERE (node_id, jid) IN (SELECT node_id, jid FROM affiliation WHERE node_id = $1 LIMIT $2);

-- forget_node: a deleted node, if nobody belongs to it any more
DELETE FROM former_node WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM subscription WHERE node_id = $1)
    AND NOT EXISTS (SELECT 1 FROM affiliation WHERE node_id = $1);

-- begin_review: the subscribers of a node are to be looked through
INSERT INTO review (node_id) VALUES ($1) ON CONFLICT DO NOTHING;

-- end_review: they have been
DELETE FROM review WHERE node_id = $1;

-- begin_trim: the items of a node are to be trimmed
INSERT INTO trim (node_id) VALUES ($1) ON CONFLICT DO NOTHING;

-- end_trim: they have been
DELETE FROM trim WHERE node_id = $1;

-- move_node: who asks for a deleted node is told where it is
INSERT INTO moved_node (name, uri, at) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET uri = excluded.uri, at = excluded.at;

-- settle_node: there is a node of this name again
DELETE FROM moved_node WHERE name = $1;

-- add_affiliation: what an account is to a node from now on
INSERT INTO affiliation (affiliation, node_id, jid) VALUES ($1, $2, $3);

-- change_affiliation: something else than before
UPDATE affiliation SET affiliation = $1 WHERE node_id = $2 AND jid = $3 AND affiliation = $4;

-- drop_affiliation: nothing any more
DELETE FROM affiliation WHERE node_id = $1 AND jid = $2 AND affiliation = $3;

-- add_contents: the first contents of a node have its number
INSERT INTO contents (id, node_id) SELECT id, id FROM node WHERE name = $1;

-- leave_contents: what a node contains is nobody's any more
UPDATE contents SET node_id = NULL WHERE node_id = $1;

-- no_items: a purged node counts from zero
UPDATE node SET items = 0, bytes = 0 WHERE id = $1;

-- no_locks: and nobody holds anything of it
UPDATE subscription SET in_flight = 0 WHERE node_id = $1 AND in_flight > 0;

-- outdated: ids of finished work that no longer count, the longest overdue first
SELECT node_id, id FROM finished WHERE until <= $1 ORDER BY until LIMIT $2;

-- A node may have very many subscribers: those of one that is deleted are told and let go in slices.

-- Deleted nodes to which somebody still belongs, by their numbers. While telling, their subscribers are to be told.
CREATE TABLE former_node (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL,
    telling INTEGER NOT NULL CHECK (telling IN (0, 1))
) STRICT;

CREATE INDEX former_node_telling ON former_node (telling, name);

-- Nodes that were closed to some: their subscribers are to be looked through, for those may have to go.
CREATE TABLE review (
    node_id INTEGER PRIMARY KEY REFERENCES node ON DELETE CASCADE
) STRICT;

-- Subscriptions and affiliations stay when their node goes, and no question by node, account or JID meets them: numbers
-- of nodes are never used again. This only changes what a column refers to, so no row is written anew.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, ' REFERENCES node ON DELETE CASCADE', '')
WHERE type = 'table' AND name IN ('affiliation', 'subscription');
PRAGMA writable_schema = RESET;

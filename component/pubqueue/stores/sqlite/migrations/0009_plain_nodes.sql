-- What plain nodes do with items that are too many or too old, and where nodes are that have moved.

-- Nodes whose settings were narrowed: of their items some have to go, or sooner, slice by slice.
CREATE TABLE trim (
    node_id INTEGER PRIMARY KEY REFERENCES node ON DELETE CASCADE
) STRICT;

-- Where the nodes that had these names are for good: as URIs.
CREATE TABLE moved_node (
    name TEXT PRIMARY KEY,
    uri  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Until now every full node refused more, and nothing was dropped; so it stays with the nodes that are there.
UPDATE node SET config = json_set(config, '$.publish_node_full', 'reject')
WHERE json_extract(config, '$.max_items') IS NOT NULL;

-- Nodes by the type of their payloads, and who may look at them.
CREATE INDEX node_type ON node (json_extract(config, '$.type'), json_extract(config, '$.access_model'), name);

-- Items that overwrite others: in the order of creation they stand where the first of them did. Rows of items that are gone
-- by a commit, or with their contents, are swept with these; what queues do never comes here.
CREATE TABLE overwritten (
    seq         INTEGER PRIMARY KEY,
    contents_id INTEGER NOT NULL,
    place       INTEGER NOT NULL
) STRICT;

CREATE INDEX overwritten_place ON overwritten (contents_id, place);

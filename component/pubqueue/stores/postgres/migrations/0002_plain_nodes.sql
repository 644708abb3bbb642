-- What plain nodes do with items that are too many or too old, and where nodes are that have moved.

-- Nodes whose settings were narrowed: of their items some have to go, or sooner, slice by slice.
CREATE TABLE trim (
    node_id bigint PRIMARY KEY REFERENCES node ON DELETE CASCADE
);

-- Where the nodes that had these names are for good: as URIs.
CREATE TABLE moved_node (
    name text COLLATE "C" PRIMARY KEY,
    uri  text NOT NULL
);

-- Until now every full node refused more, and nothing was dropped; so it stays with the nodes that are there.
UPDATE node SET config = (config::jsonb || '{"publish_node_full": "reject"}'::jsonb)::text
WHERE config::json ->> 'max_items' IS NOT NULL;

-- Nodes by the type of their payloads, and who may look at them. A type may be longer than an entry of an index: a hash of it
-- stands there.
ALTER TABLE node ADD COLUMN type text COLLATE "C" GENERATED ALWAYS AS (config::json ->> 'type') STORED;
CREATE INDEX node_type ON node (hashtextextended(type, 0), access_model, name);

-- Items that overwrite others: in the order of creation they stand where the first of them did. Rows of items that are gone
-- by a commit, or with their contents, are swept with these; what queues do never comes here.
CREATE TABLE overwritten (
    seq         bigint PRIMARY KEY,
    contents_id bigint NOT NULL,
    place       bigint NOT NULL
);

CREATE INDEX overwritten_place ON overwritten (contents_id, place);

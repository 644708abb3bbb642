-- What each item counts for, and each node, in bytes: payloads, and names and values of headers. Every item is written once for it, at the first start.
-- Programs of fifteen migrations cannot run on this schema.
ALTER TABLE item ADD COLUMN size bigint NOT NULL DEFAULT 0 CHECK (size >= 0);
ALTER TABLE node ADD COLUMN bytes bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0);
-- What an account has made, to be added up. An expression, so that nobody who looks for a node by its id alone takes this index.
CREATE INDEX node_creator ON node (creator, (id + 0));
UPDATE item SET size = octet_length(payload) + CASE WHEN headers IS NULL THEN 0 ELSE (
    SELECT coalesce(sum(octet_length(h.value ->> 0) + octet_length(h.value ->> 1)), 0)
    FROM json_array_elements(headers::json) h(value)
) END;
UPDATE node SET bytes = (
    SELECT coalesce(sum(i.size), 0) FROM contents c JOIN item i ON i.node_id = c.id WHERE c.node_id = node.id
);

-- What each item counts for, and each node, in bytes: payloads, and names and values of headers. Every item is written once for it:
-- some 4 us each, so a million items take four seconds at the first start. Programs of twenty migrations cannot run on this schema.
ALTER TABLE item ADD COLUMN size INTEGER NOT NULL DEFAULT 0 CHECK (size >= 0);
ALTER TABLE node ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0);
-- What an account has made, to be added up.
CREATE INDEX node_creator ON node (creator);
UPDATE item SET size = length(payload) + CASE WHEN headers IS NULL THEN 0 ELSE (
    SELECT coalesce(sum(length(CAST(json_extract(h.value, '$[0]') AS BLOB)) + length(CAST(json_extract(h.value, '$[1]') AS BLOB))), 0)
    FROM json_each(headers) h
) END;
UPDATE node SET bytes = (
    SELECT coalesce(sum(i.size), 0) FROM contents c CROSS JOIN item i ON i.node_id = c.id WHERE c.node_id = node.id
);

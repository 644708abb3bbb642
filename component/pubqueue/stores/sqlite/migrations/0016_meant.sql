-- A node that names another for its dead items keeps which node it meant: one of that name that is made later is another.
-- Programs of fifteen migrations cannot run on this schema.
UPDATE node SET config = json_set(config, '$.dead_letter_meant', (
    SELECT other.created || ' ' || other.creator FROM node AS other
    WHERE other.name = json_extract(node.config, '$.dead_letter_node')
))
WHERE json_extract(config, '$.dead_letter_node') IN (SELECT name FROM node);

-- A node that names another for its dead items keeps which node it meant: one of that name that is made later is another.
-- Programs of nine migrations cannot run on this schema.
UPDATE node SET config = (
    node.config::jsonb || jsonb_build_object('dead_letter_meant', other.created || ' ' || other.creator)
)::text
FROM node AS other
WHERE other.name = node.config::json ->> 'dead_letter_node';

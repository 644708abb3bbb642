-- What an item waits for in the state `held`, and what has come for it in any state (decision 169): NULL for nearly all items. The two
-- indexes have held items alone; that of lifetimes has them too, and is made anew. The states are a text of the schema, so no row is
-- written anew. Programs of forty-four migrations cannot run on this schema.
ALTER TABLE item ADD COLUMN wait BLOB;
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''queued'', ''locked'', ''delayed'', ''dead''', '''queued'', ''locked'', ''delayed'', ''held'', ''dead''')
WHERE type = 'table' AND name = 'item';
PRAGMA writable_schema = RESET;
CREATE INDEX item_waits ON item (node_id) WHERE state = 'held';
CREATE INDEX item_until ON item (due) WHERE state = 'held' AND due IS NOT NULL;
DROP INDEX item_expires;
CREATE INDEX item_expires ON item (expires) WHERE expires IS NOT NULL AND state IN ('queued', 'delayed', 'held');

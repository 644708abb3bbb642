-- What an item waits for in the state `held`, and what has come for it in any state (decision 169): NULL for nearly all items. The two
-- indexes have held items alone; that of lifetimes has them too, and is made anew. Programs of thirty-seven migrations cannot run on this
-- schema.
ALTER TABLE item ADD COLUMN wait bytea;
ALTER TABLE item DROP CONSTRAINT item_state_check;
ALTER TABLE item ADD CONSTRAINT item_state_check CHECK (state IN ('queued', 'locked', 'delayed', 'held', 'dead'));
CREATE INDEX item_waits ON item (node_id) WHERE state = 'held';
CREATE INDEX item_until ON item (due) WHERE state = 'held' AND due IS NOT NULL;
DROP INDEX item_expires;
CREATE INDEX item_expires ON item (expires) WHERE expires IS NOT NULL AND state IN ('queued', 'delayed', 'held');

-- Long work goes in slices: what is purged or deleted is cut off at once, and its rows go by and by.

-- What items belong to: the contents that a node has at present, or had. A purge gives a node new contents, and a
-- node that is deleted leaves its own behind: contents without a node are nobody's, their items are not to be seen,
-- and are removed in slices. The first contents of a node have its number; later ones have higher numbers than nodes.
CREATE TABLE contents (
    id      INTEGER PRIMARY KEY,
    node_id INTEGER UNIQUE REFERENCES node ON DELETE SET NULL
) STRICT;

INSERT INTO contents SELECT id, id FROM node;
CREATE INDEX contents_gone ON contents (id) WHERE node_id IS NULL;

-- item.node_id is the number of contents from now on. Finished work of a node that is deleted goes with its time:
-- numbers of nodes are never used again. Both only change what a column refers to, so no row is written anew.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'REFERENCES node ON DELETE CASCADE', 'REFERENCES contents')
WHERE type = 'table' AND name = 'item';
UPDATE sqlite_schema SET sql = replace(sql, ' REFERENCES node ON DELETE CASCADE', '')
WHERE type = 'table' AND name = 'finished';
PRAGMA writable_schema = RESET;

-- What is staged by the winners of a large commit belongs to the record of the version, and is moved in slices.
ALTER TABLE attempt ADD COLUMN committed INTEGER NOT NULL DEFAULT 0 CHECK (committed IN (0, 1));
CREATE INDEX attempt_committed ON attempt (txn_id) WHERE committed;

-- And what becomes of winners whose ids are taken when their turn comes.
ALTER TABLE txn ADD COLUMN on_taken TEXT NOT NULL DEFAULT 'fail' CHECK (on_taken IN ('fail', 'skip', 'dead-letter'));
ALTER TABLE txn ADD COLUMN dead_letter_node TEXT;

-- Whether an item lives is seen in the index: those whose time is over and that wait for the reaper are passed over
-- without a look at their rows.
DROP INDEX item_ready;
DROP INDEX item_aside;
CREATE INDEX item_ready ON item (node_id, priority DESC, seq, expires) WHERE state = 'queued';
CREATE INDEX item_aside ON item (node_id, priority DESC, seq, expires) WHERE aside;

-- What was counted by walking all rows is counted where it is written. Programs that know only the schema before cannot run on this one.

-- Of an attempt at a version that is visible at once: how many of its items the node knew before.
ALTER TABLE attempt ADD COLUMN known INTEGER NOT NULL DEFAULT 0 CHECK (known >= 0);
UPDATE attempt SET known = (SELECT count(*) FROM staged WHERE attempt_id = attempt.id AND staged.known)
WHERE txn_id IN (SELECT id FROM txn WHERE immediate AND committed IS NULL);

-- Whether a dead letter still lies there is seen in the index: the dead are counted without a look at their rows.
DROP INDEX item_death;
CREATE INDEX item_death ON item (node_id, death, state) WHERE death IS NOT NULL;

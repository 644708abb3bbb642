-- Groups of items, of which only so many are in flight at a time, and rates. Programs of six migrations cannot run on this
-- schema.

-- The group that an item is of, and while it is its turn the number of that: where it stands among what is ready. An item of
-- a group is ready, in work or waits for another try only while it has a turn; one that died has none.
ALTER TABLE item ADD COLUMN group_name text COLLATE "C" CHECK (group_name <> '');
ALTER TABLE item ADD COLUMN turn bigint
    CHECK (turn IS NULL OR (group_name IS NOT NULL AND state <> 'dead'))
    CHECK (group_name IS NULL OR turn IS NOT NULL OR (state <> 'locked' AND NOT aside));

-- What is ready: items of no group, and those whose turn it is. Both stand in one order, whatever else is in line. The columns
-- of that order stand behind it, so that nobody who counts has to look at the rows.
DROP INDEX item_ready;
CREATE INDEX item_ready ON item (node_id, priority DESC, (coalesce(turn, seq)), expires, turn, seq)
WHERE state = 'queued' AND (group_name IS NULL OR turn IS NOT NULL);
DROP INDEX item_aside;
CREATE INDEX item_aside ON item (node_id, priority DESC, (coalesce(turn, seq)), expires) WHERE aside;

-- The turns of a group, and who is in line of it. What is queued of all groups, for the oldest of it and for those who count.
CREATE INDEX item_turn ON item (node_id, group_name, turn) WHERE turn IS NOT NULL;
CREATE INDEX item_line ON item (node_id, group_name, seq) WHERE state = 'queued' AND group_name IS NOT NULL AND turn IS NULL;
-- The last is not said in the words of the one before, so that it does not stand in for that.
CREATE INDEX item_grouped ON item (node_id, seq, turn) WHERE state = 'queued' AND group_name <> '';

ALTER TABLE staged ADD COLUMN group_name text COLLATE "C" CHECK (group_name <> '');
-- How often an attempt has staged something of a group.
ALTER TABLE attempt ADD COLUMN grouped bigint NOT NULL DEFAULT 0 CHECK (grouped >= 0);

-- Until when the rate of a node is used up, in microseconds since 1970.
ALTER TABLE node ADD COLUMN spent bigint NOT NULL DEFAULT 0 CHECK (spent >= 0);

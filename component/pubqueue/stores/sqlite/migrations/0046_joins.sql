-- The join that an item counts for (decision 174): the number of the join and 16 bits that tell whether it is what was written
-- (`model/joins.py`); NULL for nearly all items. One index has the members of a join, to count them again, and one those that are dead.
ALTER TABLE item ADD COLUMN joins INTEGER;
CREATE INDEX item_joins ON item (joins) WHERE joins IS NOT NULL;
CREATE INDEX item_joins_dead ON item (joins) WHERE joins IS NOT NULL AND death IS NOT NULL;

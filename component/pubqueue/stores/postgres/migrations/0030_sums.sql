-- The checksum of an item's content (decision 143): NULL in rows that an earlier version has written, until it is computed, in slices. The
-- indexes have only those rows; they are of an expression, so that nobody who looks for an item by its number takes them.
ALTER TABLE item ADD COLUMN sum bigint;
ALTER TABLE done_item ADD COLUMN sum bigint;
ALTER TABLE staged ADD COLUMN sum bigint;
CREATE INDEX item_without_sum ON item ((seq + 0)) WHERE sum IS NULL;
CREATE INDEX done_item_without_sum ON done_item ((seq + 0)) WHERE sum IS NULL;

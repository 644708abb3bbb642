-- The checksum of an item's content (decision 143): NULL in rows that an earlier version has written, until it is computed, in slices. The
-- indexes have only those rows.
ALTER TABLE item ADD COLUMN sum INTEGER;
ALTER TABLE done_item ADD COLUMN sum INTEGER;
ALTER TABLE staged ADD COLUMN sum INTEGER;
CREATE INDEX item_without_sum ON item (seq) WHERE sum IS NULL;
CREATE INDEX done_item_without_sum ON done_item (seq) WHERE sum IS NULL;

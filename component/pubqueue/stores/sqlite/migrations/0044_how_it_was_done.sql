-- Who has done an item, after how many deliveries and failures, and when it was delivered for the last time: of what was done before, nothing is
-- known of that. And two indexes, by which done items are listed, and one is found.
ALTER TABLE done_item ADD COLUMN acquired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE done_item ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE done_item ADD COLUMN delivered INTEGER;
ALTER TABLE done_item ADD COLUMN worker TEXT;
CREATE INDEX done_item_number ON done_item (node_id);
CREATE INDEX done_item_id ON done_item (node_id, id);

-- Who has done an item, after how many deliveries and failures, and when it was delivered for the last time: of what was done before, nothing is
-- known of that. And two indexes, by which done items are listed, and one is found.
ALTER TABLE done_item ADD COLUMN acquired bigint NOT NULL DEFAULT 0;
ALTER TABLE done_item ADD COLUMN failed bigint NOT NULL DEFAULT 0;
ALTER TABLE done_item ADD COLUMN delivered bigint;
ALTER TABLE done_item ADD COLUMN worker text;
CREATE INDEX done_item_number ON done_item (node_id, (seq + 0));
CREATE INDEX done_item_id ON done_item (node_id, id, (seq + 0));

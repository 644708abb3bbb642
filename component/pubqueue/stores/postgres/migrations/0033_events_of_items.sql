-- The events of one item, in order, for its history. Events without an item, such as a purge, are not in it.
CREATE INDEX event_item ON event (node_id, item, seq) WHERE item IS NOT NULL;

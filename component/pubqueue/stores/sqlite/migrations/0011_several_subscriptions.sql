-- Where a JID has several subscriptions to a node they stand together in its row, as a list in JSON (XEP-0060 6.1.6);
-- NULL where it has one. What the row says of options is what holds of all of them. Programs of ten migrations cannot run
-- on this schema.
ALTER TABLE subscription ADD COLUMN several TEXT CHECK (json_array_length(several) > 1);

CREATE INDEX subscription_several ON subscription (node_id, state, jid) WHERE several IS NOT NULL;

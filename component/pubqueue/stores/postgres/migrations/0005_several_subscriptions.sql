-- Where a JID has several subscriptions to a node they stand together in its row, as a list in JSON (XEP-0060 6.1.6);
-- NULL where it has one. What the row says of options is what holds of all of them. Programs of four migrations cannot run
-- on this schema.
ALTER TABLE subscription ADD COLUMN several text COLLATE "C" CHECK (json_array_length(several::json) > 1);

CREATE INDEX subscription_several ON subscription (node_id, state, left(jid, 500)) WHERE several IS NOT NULL;

-- Made behind the one above, for the reason that 0003 gives.
DROP INDEX subscription_jid;
CREATE INDEX subscription_jid ON subscription (left(jid, 500));
DROP INDEX subscription_account;
CREATE INDEX subscription_account ON subscription (account, node_id);

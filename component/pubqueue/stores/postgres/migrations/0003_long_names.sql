-- A full JID may have 3,071 bytes, an entry of an index 2,704. So full JIDs are indexed by their first 500 characters, which are
-- 2,000 bytes at most: that keeps their order, and whoever looks for one compares the whole as well. Where no two may be
-- the same, a hash of the whole stands beside.
ALTER TABLE subscription DROP CONSTRAINT subscription_node_id_jid_key;
CREATE UNIQUE INDEX subscription_of_node ON subscription (node_id, left(jid, 500), hashtextextended(jid, 0));

DROP INDEX subscription_jid;
CREATE INDEX subscription_jid ON subscription (left(jid, 500));

ALTER TABLE resource DROP CONSTRAINT resource_jid_key;
CREATE UNIQUE INDEX resource_jid ON resource (left(jid, 500), hashtextextended(jid, 0));

ALTER TABLE receipt DROP CONSTRAINT receipt_pkey;
CREATE UNIQUE INDEX receipt_of_item ON receipt (seq, left(jid, 500), hashtextextended(jid, 0));

DROP INDEX item_held;
CREATE INDEX item_held ON item (left(holder, 500)) WHERE state = 'locked';

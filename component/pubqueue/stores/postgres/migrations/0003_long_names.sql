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
CREATE INDEX item_held ON item (left(holder, 500)) WHERE holder IS NOT NULL;

-- Of two indexes that seem to cost the same, as they do while a table is empty, PostgreSQL takes the one that was made last: so
-- those that find a single row, or few, are made behind the others.
ALTER TABLE item DROP CONSTRAINT item_node_id_id_key;
ALTER TABLE item ADD CONSTRAINT item_node_id_id_key UNIQUE (node_id, id);

ALTER TABLE receipt DROP CONSTRAINT receipt_seq_fkey;
ALTER TABLE item DROP CONSTRAINT item_pkey;
ALTER TABLE item ADD CONSTRAINT item_pkey PRIMARY KEY (seq);
ALTER TABLE receipt ADD CONSTRAINT receipt_seq_fkey FOREIGN KEY (seq) REFERENCES item ON DELETE CASCADE;

ALTER TABLE node DROP CONSTRAINT node_name_key;
ALTER TABLE node ADD CONSTRAINT node_name_key UNIQUE (name);

DROP INDEX subscription_account;
CREATE INDEX subscription_account ON subscription (account, node_id);

ALTER TABLE txn DROP CONSTRAINT txn_app_id_version_key;
ALTER TABLE txn ADD CONSTRAINT txn_app_id_version_key UNIQUE (app_id, version);

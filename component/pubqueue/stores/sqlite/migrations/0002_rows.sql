-- The seam of the store speaks of rows: whoever makes a change counts it, so no trigger does; numbers of items
-- and of lock tokens are given before the rows are written. Programs of version 0.1 cannot run on this schema.

-- The next number of each sequence; numbers only rise, also when the newest row has gone.
CREATE TABLE sequence (
    name TEXT    PRIMARY KEY,
    next INTEGER NOT NULL CHECK (next >= 1)
) STRICT, WITHOUT ROWID;

INSERT INTO sequence SELECT 'item', coalesce(max(seq), 0) + 1 FROM item;
-- A death was numbered with the token to be given next: the next one has to be above it.
INSERT INTO sequence
SELECT 'token', max(next, 1 + (SELECT coalesce(max(death), 0) FROM item WHERE death IS NOT NULL)) FROM token;
DROP TABLE token;

DROP TRIGGER subscription_added;
DROP TRIGGER subscription_ended;

-- Subscriptions are asked for by account, in one node or in all; never by the JID alone.
DROP INDEX subscription_account;
DROP INDEX subscription_jid;
CREATE INDEX subscription_account ON subscription (account, node_id);

CREATE INDEX affiliation_account ON affiliation (jid);

-- A subscription may wait for an owner's word, want nothing delivered, and end by itself: at a moment, or when its JID
-- becomes unavailable. Programs of three migrations cannot run on this schema.
ALTER TABLE subscription ADD COLUMN state text COLLATE "C" NOT NULL DEFAULT 'subscribed'
    CHECK (state IN ('subscribed', 'pending'));
ALTER TABLE subscription ADD COLUMN deliver boolean NOT NULL DEFAULT true;
ALTER TABLE subscription ADD COLUMN expire bigint;
-- When its end is to be announced; NULL once it has been.
ALTER TABLE subscription ADD COLUMN remind bigint CHECK (remind IS NULL OR expire IS NOT NULL);
ALTER TABLE subscription ADD COLUMN temporary boolean NOT NULL DEFAULT false;

CREATE INDEX subscription_state ON subscription (node_id, state, left(jid, 500));
CREATE INDEX subscription_lease ON subscription ((coalesce(remind, expire))) WHERE expire IS NOT NULL;

-- Made behind the one above, for the reason that 0003 gives.
DROP INDEX subscription_jid;
CREATE INDEX subscription_jid ON subscription (left(jid, 500));
DROP INDEX subscription_account;
CREATE INDEX subscription_account ON subscription (account, node_id);

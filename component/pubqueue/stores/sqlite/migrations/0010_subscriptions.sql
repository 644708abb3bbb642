-- A subscription may wait for an owner's word, want nothing delivered, and end by itself: at a moment, or when its JID
-- becomes unavailable. Programs of nine migrations cannot run on this schema.
ALTER TABLE subscription ADD COLUMN state TEXT NOT NULL DEFAULT 'subscribed' CHECK (state IN ('subscribed', 'pending'));
ALTER TABLE subscription ADD COLUMN deliver INTEGER NOT NULL DEFAULT 1 CHECK (deliver IN (0, 1));
ALTER TABLE subscription ADD COLUMN expire INTEGER;
-- When its end is to be announced; NULL once it has been.
ALTER TABLE subscription ADD COLUMN remind INTEGER CHECK (remind IS NULL OR expire IS NOT NULL);
ALTER TABLE subscription ADD COLUMN temporary INTEGER NOT NULL DEFAULT 0 CHECK (temporary IN (0, 1));

CREATE INDEX subscription_state ON subscription (node_id, state, jid);
CREATE INDEX subscription_lease ON subscription (coalesce(remind, expire)) WHERE expire IS NOT NULL;

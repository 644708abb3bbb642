-- When a full JID last showed activity, in milliseconds since 1970 (decision 67): an older report that it left, which was decided
-- late, is about an earlier session; 0 if that is not known.
ALTER TABLE resource ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;

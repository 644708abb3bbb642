-- Of each full JID that is known whether it has sent available presence: only then its server reports that it leaves. Earlier programs also
-- noted those that had only subscribed. Which these are is not known: all count as present until the world is asked (decision 142).
ALTER TABLE resource ADD COLUMN present INTEGER NOT NULL DEFAULT 0 CHECK (present IN (0, 1));
UPDATE resource SET present = 1;

-- Locks that were settled, for who repeats the request; tokens are never given again. `whose` stands for node, item and account.
-- Earlier programs neither write nor read it.
CREATE TABLE settled (
    token   INTEGER PRIMARY KEY,
    whose   BLOB    NOT NULL,
    verdict TEXT    NOT NULL CHECK (verdict IN ('retract', 'unlock')),
    until   INTEGER NOT NULL
) STRICT;

CREATE INDEX settled_until ON settled (until);

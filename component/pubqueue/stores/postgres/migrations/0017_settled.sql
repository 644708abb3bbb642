-- Locks that were settled, for who repeats the request; tokens are never given again. `whose` stands for node, item and account.
-- Earlier programs neither write nor read it.
CREATE TABLE settled (
    token   bigint PRIMARY KEY,
    whose   bytea  NOT NULL,
    verdict text   NOT NULL CHECK (verdict IN ('retract', 'unlock')),
    until   bigint NOT NULL
);

CREATE INDEX settled_until ON settled (until);

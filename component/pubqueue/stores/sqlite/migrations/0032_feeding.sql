-- Publishes that feed more queues than one commit may. Earlier programs neither write nor read them.
CREATE TABLE feeding (
    mark  TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    what  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE fed_message (
    name  TEXT PRIMARY KEY,
    draft BLOB NOT NULL
) STRICT;

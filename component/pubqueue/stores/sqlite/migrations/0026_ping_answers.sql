-- When JIDs last answered a ping of another instance; to be forgotten at `until`. Earlier programs neither write nor read it.
CREATE TABLE ping_answer (
    jid   TEXT    NOT NULL PRIMARY KEY,
    at    INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX ping_answer_until ON ping_answer (until);

-- When JIDs last answered a ping of another instance; to be forgotten at `until`. Earlier programs neither write nor read it.
CREATE TABLE ping_answer (
    jid   text   NOT NULL,
    at    bigint NOT NULL,
    until bigint NOT NULL
);

CREATE UNIQUE INDEX ping_answer_jid ON ping_answer (left(jid, 500), hashtextextended(jid, 0));

CREATE INDEX ping_answer_until ON ping_answer (until);

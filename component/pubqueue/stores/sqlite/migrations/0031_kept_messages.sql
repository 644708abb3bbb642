-- Messages of assured service. `mark` stands for the sender and the id of a message. A message that is held has its bytes; one that has ended
-- has the answer to its delivery. `message_total` has what is kept of each account, and of all under the empty name. Earlier programs neither
-- write nor read either.
CREATE TABLE kept_message (
    mark    TEXT    NOT NULL PRIMARY KEY,
    sender  TEXT    NOT NULL,
    account TEXT    NOT NULL,
    msg_id  TEXT    NOT NULL,
    iq_id   TEXT    NOT NULL,
    digest  BLOB    NOT NULL,
    byte_count  INTEGER NOT NULL,
    held    INTEGER NOT NULL,
    answer  TEXT    NOT NULL,
    until   INTEGER NOT NULL,
    message BLOB,
    CHECK ((message IS NULL) = (held = 0)),
    CHECK (held = 0 OR answer = '')
) STRICT;

CREATE INDEX kept_message_until ON kept_message (until);

CREATE INDEX kept_message_account ON kept_message (account, held, until);

CREATE TABLE message_total (
    account    TEXT    PRIMARY KEY,
    messages   INTEGER NOT NULL CHECK (messages >= 0),
    byte_count     INTEGER NOT NULL CHECK (byte_count >= 0),
    remembered INTEGER NOT NULL CHECK (remembered >= 0)
) STRICT, WITHOUT ROWID;

CREATE INDEX message_total_held ON message_total (account) WHERE messages > 0;

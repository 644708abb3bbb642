-- Messages of assured service. `mark` stands for the sender and the id of a message. A message that is held has its bytes; one that has ended
-- has the answer to its delivery. `message_total` has what is kept of each account, and of all under the empty name. Earlier programs neither
-- write nor read either.
CREATE TABLE kept_message (
    mark    text    PRIMARY KEY,
    sender  text    NOT NULL,
    account text    NOT NULL,
    msg_id  text    NOT NULL,
    iq_id   text    NOT NULL,
    digest  bytea   NOT NULL,
    byte_count  bigint  NOT NULL,
    held    bigint  NOT NULL,
    answer  text    NOT NULL,
    until   bigint  NOT NULL,
    message bytea,
    CHECK ((message IS NULL) = (held = 0)),
    CHECK (held = 0 OR answer = '')
);

CREATE INDEX kept_message_until ON kept_message (until);

CREATE INDEX kept_message_account ON kept_message (account, held, until);

CREATE TABLE message_total (
    account    text   COLLATE "C" PRIMARY KEY,
    messages   bigint NOT NULL CHECK (messages >= 0),
    byte_count     bigint NOT NULL CHECK (byte_count >= 0),
    remembered bigint NOT NULL CHECK (remembered >= 0)
);

CREATE INDEX message_total_held ON message_total (account) WHERE messages > 0;

-- Where items are pushed to. Earlier programs neither write nor read it.
CREATE TABLE registration (
    name      text    PRIMARY KEY,
    account   text    NOT NULL,
    node      text    NOT NULL,
    queueing  boolean NOT NULL,
    words     bytea   NOT NULL,
    disabled  boolean NOT NULL,
    failures  bigint  NOT NULL,
    error     text    NOT NULL,
    position  bigint  NOT NULL,
    following text    NOT NULL,
    runner    text    NOT NULL,
    until     bigint  NOT NULL,
    revision  bigint  NOT NULL
);

-- Where items are pushed to. Earlier programs neither write nor read it.
CREATE TABLE registration (
    name      TEXT    PRIMARY KEY,
    account   TEXT    NOT NULL,
    node      TEXT    NOT NULL,
    queueing  INTEGER NOT NULL,
    words     BLOB    NOT NULL,
    disabled  INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    error     TEXT    NOT NULL,
    position  INTEGER NOT NULL,
    following TEXT    NOT NULL,
    runner    TEXT    NOT NULL,
    until     INTEGER NOT NULL,
    revision  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

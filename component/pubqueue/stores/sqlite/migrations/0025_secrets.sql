-- Secrets of the service, which each instance needs and none shows. Earlier programs do not read them.
CREATE TABLE secret (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

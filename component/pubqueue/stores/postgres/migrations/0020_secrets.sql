-- Secrets of the service, which each instance needs and none shows. Earlier programs do not read them.
CREATE TABLE secret (
    name  text  PRIMARY KEY,
    value bytea NOT NULL
);

-- Alerts that were raised and are not over, or that are over and whose end was not reported; and which instance watches. Earlier programs neither
-- write nor read either.
CREATE TABLE alert (
    name    TEXT    NOT NULL PRIMARY KEY,
    since   INTEGER NOT NULL,
    detail  TEXT    NOT NULL,
    over_at INTEGER NOT NULL,
    reported    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE alert_watch (
    name   TEXT    NOT NULL PRIMARY KEY,
    runner TEXT    NOT NULL,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

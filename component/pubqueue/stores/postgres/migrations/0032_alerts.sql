-- Alerts that were raised and are not over, or that are over and whose end was not reported; and which instance watches. Earlier programs neither
-- write nor read either.
CREATE TABLE alert (
    name    text   PRIMARY KEY COLLATE "C",
    since   bigint NOT NULL,
    detail  text   NOT NULL,
    over_at bigint NOT NULL,
    reported    bigint NOT NULL
);

CREATE TABLE alert_watch (
    name   text   PRIMARY KEY COLLATE "C",
    runner text   NOT NULL,
    until  bigint NOT NULL
);

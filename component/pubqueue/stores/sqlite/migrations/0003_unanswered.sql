-- A subscription counts deliveries in a row of which nothing was heard: those that came back, and those whose lock
-- timed out. Programs that know two migrations cannot run on this schema.
ALTER TABLE subscription RENAME COLUMN bounces TO unanswered;

-- A subscription counts deliveries in a row of which nothing was heard: those that came back, and those whose lock
-- timed out. Programs that know two migrations cannot run on this schema.
ALTER TABLE subscription RENAME COLUMN bounces TO unanswered;

-- The first lock token whose delivery is not known to have left. What older programs have sent counts as told.
INSERT INTO sequence SELECT 'told', next FROM sequence WHERE name = 'token';

-- Statements about schedules that are the same in both dialects. See `sql/statements.py`.

-- all_schedules: schedules after a name
SELECT name, definition, source, author, fired_through, due, last, error, tries, paused, revision, sum FROM schedule
WHERE name > $1 ORDER BY name LIMIT $2;

-- due_schedules: names of schedules that have something to do, the longest overdue first
SELECT name FROM schedule WHERE due IS NOT NULL AND due <= $1 ORDER BY due, name LIMIT $2;

-- stop_schedule: a damaged schedule has no turn any more
UPDATE schedule SET due = NULL WHERE name = $1 AND revision = $2;

-- drop_schedule: a schedule of the expected revision
DELETE FROM schedule WHERE name = $1 AND revision = $2;

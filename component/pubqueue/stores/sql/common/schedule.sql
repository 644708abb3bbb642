-- Schedules, as far as both dialects say the same. See `relational/statements.py`.

-- all_schedules: schedules behind a name
SELECT name, definition, source, author, fired_through, due, last, error, tries, paused, revision FROM schedule
WHERE name > $1 ORDER BY name LIMIT $2;

-- due_schedules: names of schedules that have something to do, the longest overdue first
SELECT name FROM schedule WHERE due IS NOT NULL AND due <= $1 ORDER BY due, name LIMIT $2;

-- drop_schedule: a schedule of the revision that was believed
DELETE FROM schedule WHERE name = $1 AND revision = $2;

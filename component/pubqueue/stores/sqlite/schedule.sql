-- schedules: schedules by name
SELECT s.name, s.definition, s.source, s.author, s.fired_through, s.due, s.last, s.error, s.tries, s.paused, s.revision, s.sum
FROM json_each(?) k CROSS JOIN schedule s ON s.name = k.value;

-- add_schedule: a new schedule
INSERT INTO schedule (definition, source, author, fired_through, due, last, error, tries, paused, revision, sum, name)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- change_schedule: another definition, or another state, of the expected revision
UPDATE schedule SET definition = ?, source = ?, author = ?, fired_through = ?, due = ?, last = ?, error = ?, tries = ?, paused = ?,
revision = ?, sum = ? WHERE name = ? AND revision = ?;

-- schedules: schedules by name
SELECT s.name, s.definition, s.source, s.author, s.fired_through, s.due, s.last, s.error, s.tries, s.paused, s.revision, s.sum
FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT * FROM schedule WHERE name = k.value OFFSET 0) s;

-- add_schedule: a new schedule
INSERT INTO schedule (definition, source, author, fired_through, due, last, error, tries, paused, revision, sum, name)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::bigint <> 0, $10, $11, $12);

-- change_schedule: another definition, or another state, of the expected revision
UPDATE schedule SET definition = $1, source = $2, author = $3, fired_through = $4, due = $5, last = $6, error = $7, tries = $8,
paused = $9::bigint <> 0, revision = $10, sum = $11 WHERE name = $12 AND revision = $13;

-- Writes of the event log. Only one batch at a time may write, so the newest number and the commits are in step.

-- add_event: events; their numbers continue from the newest
INSERT INTO event (seq, at, kind, node_id, item, attempt, worker, publisher, age, held, origin, went_to, detail)
SELECT (SELECT coalesce(max(seq), 0) FROM event) + v.place, v.at, v.kind, v.node_id, v.item, v.attempt, v.worker, v.publisher,
    v.age, v.held, v.origin, v.went_to, v.detail
FROM unnest(
    $1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::bigint[],
    $10::text[], $11::text[], $12::text[]
) WITH ORDINALITY v(at, kind, node_id, item, attempt, worker, publisher, age, held, origin, went_to, detail, place);

-- add_superseded: items that the winners of a commit replace in a node; $4 is true for a queue
INSERT INTO event (seq, at, kind, node_id, item, attempt, publisher, age, detail)
SELECT (SELECT coalesce(max(seq), 0) FROM event) + row_number() OVER (ORDER BY i.seq), $1::bigint, $2::text,
    (SELECT id FROM node WHERE name = $3), i.id, i.acquired, i.publisher, greatest(0, $1::bigint - i.published), $5::text
FROM met m CROSS JOIN LATERAL (SELECT * FROM item WHERE seq = m.item_seq OFFSET 0) i
WHERE m.node = $3 AND (NOT m.same OR NOT $4::boolean);

-- add_winners: items that the winners of a commit add to a node, or replace there
INSERT INTO event (seq, at, kind, node_id, item, attempt, publisher, age, detail)
SELECT (SELECT coalesce(max(seq), 0) FROM event) + row_number() OVER (ORDER BY w.part, s.place), $1::bigint, $2::text,
    (SELECT id FROM node WHERE name = $3), s.id, 0, $6::text, 0, CASE WHEN m.item_seq IS NULL THEN '' ELSE $5::text END
FROM winner w JOIN staged s ON s.attempt_id = w.attempt_id
LEFT JOIN met m ON m.attempt_id = s.attempt_id AND m.place = s.place
WHERE s.node = $3 AND (m.attempt_id IS NULL OR (m.item_seq IS NOT NULL AND (NOT m.same OR NOT $4::boolean)));

-- Samples of the last hours. Each process adds its events; its levels replace older ones.

-- add_sample: one process's samples of nodes and minutes
INSERT INTO sample (node_id, at, queued, locked, delayed, dead, published, delivered, completed, failed, waited, longest)
SELECT v.node_id, v.at, v.queued, v.locked, v.delayed, v.dead, v.published, v.delivered, v.completed, v.failed, v.waited, v.longest
FROM unnest(
    $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[]
) v(node_id, at, queued, locked, delayed, dead, published, delivered, completed, failed, waited, longest)
ON CONFLICT (node_id, at) DO UPDATE SET queued = excluded.queued, locked = excluded.locked, delayed = excluded.delayed, dead = excluded.dead,
    published = sample.published + excluded.published, delivered = sample.delivered + excluded.delivered, completed = sample.completed + excluded.completed, failed = sample.failed + excluded.failed, waited = sample.waited + excluded.waited,
    longest = greatest(sample.longest, excluded.longest);

-- drop_samples: the oldest samples from before a moment, up to a number
DELETE FROM sample s USING (SELECT node_id, at FROM sample WHERE at < $1 ORDER BY at LIMIT $2) old
WHERE s.node_id = old.node_id AND s.at = old.at;

-- samples: samples of some nodes from a moment on
SELECT n.name, s.at, s.queued, s.locked, s.delayed, s.dead, s.published, s.delivered, s.completed, s.failed, s.waited, s.longest
FROM json_array_elements_text($1::json) k(value)
CROSS JOIN LATERAL (SELECT id, name FROM node WHERE name = k.value OFFSET 0) n
CROSS JOIN LATERAL (SELECT * FROM sample WHERE node_id = n.id AND at >= $2 ORDER BY at LIMIT $3 OFFSET 0) s
ORDER BY n.name, s.at LIMIT $3;

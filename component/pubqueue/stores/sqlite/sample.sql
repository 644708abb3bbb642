-- Samples of the last hours. Each process adds its events; its levels replace older ones.

-- add_sample: one process's sample of a node and a minute
INSERT INTO sample (node_id, at, queued, locked, delayed, dead, published, delivered, completed, failed, waited, longest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (node_id, at) DO UPDATE SET queued = excluded.queued, locked = excluded.locked, delayed = excluded.delayed, dead = excluded.dead,
    published = sample.published + excluded.published, delivered = sample.delivered + excluded.delivered, completed = sample.completed + excluded.completed, failed = sample.failed + excluded.failed, waited = sample.waited + excluded.waited,
    longest = max(sample.longest, excluded.longest);

-- drop_samples: the oldest samples from before a moment, up to a number
DELETE FROM sample WHERE (node_id, at) IN (SELECT node_id, at FROM sample INDEXED BY sample_at WHERE at < ? ORDER BY at LIMIT ?);

-- samples: samples of some nodes from a moment on
SELECT n.name, s.at, s.queued, s.locked, s.delayed, s.dead, s.published, s.delivered, s.completed, s.failed, s.waited, s.longest
FROM json_each(?) k CROSS JOIN node n ON n.name = k.value CROSS JOIN sample s ON s.node_id = n.id AND s.at >= ?
ORDER BY n.name, s.at LIMIT ?;

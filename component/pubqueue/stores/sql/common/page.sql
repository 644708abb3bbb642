-- Pages of rows: the statements that are the same in both dialects. See `sql/statements.py`.

-- page_nodes: nodes by name
SELECT %(node)s
FROM node n WHERE n.name > $1 ORDER BY n.name LIMIT $2;

-- page_nodes_back: nodes by name
SELECT %(node)s
FROM node n WHERE n.name < $1 ORDER BY n.name DESC LIMIT $2;

-- nodes_named: nodes between two names, by name
SELECT %(node)s
FROM node n WHERE n.name > $1 AND n.name < $2 ORDER BY n.name LIMIT $3;

-- nodes_pushed: nodes whose labels have an endpoint, by name; the condition is that of the index node_pushed
SELECT %(node)s
FROM node n WHERE n.config LIKE '%x-pubqueue-push=%' AND n.name > $1 ORDER BY n.name LIMIT $2;

-- nodes_of_account_named: nodes between two names with an affiliation of an account, by name
SELECT %(node)s, a.affiliation, a.sum
FROM node n %(join)s affiliation a ON a.node_id = n.id
WHERE a.jid = $1 AND n.name > $2 AND n.name < $3 ORDER BY n.name LIMIT $4;

-- count_nodes: the number of nodes
SELECT count(*) FROM node;

-- count_subscriptions_of: their number
SELECT (SELECT count(*) FROM subscription WHERE node_id = $1 AND state = $2) + (
    SELECT coalesce(sum(json_array_length(several::json) - 1), 0) FROM subscription
    WHERE node_id = $1 AND state = $2 AND several IS NOT NULL
);

-- connections_of: of so many subscriptions, by number, those whose addresses match a pattern, and the last one
SELECT id, jid FROM subscription WHERE id > $1
    AND id <= (SELECT max(id) FROM (SELECT id FROM subscription WHERE id > $1 ORDER BY id LIMIT $3) AS part)
    AND (jid LIKE $2 ESCAPE '!'
        OR id = (SELECT max(id) FROM (SELECT id FROM subscription WHERE id > $1 ORDER BY id LIMIT $3) AS part))
ORDER BY id;

-- trims: nodes that have to be trimmed
SELECT n.name FROM trim t %(join)s node n ON n.id = t.node_id WHERE n.name > $1 ORDER BY n.name LIMIT $2;

-- seeks_under_way: queues with a seek under way
SELECT n.name FROM seek s %(join)s node n ON n.id = s.node_id WHERE n.name > $1 ORDER BY n.name LIMIT $2;

-- queues_that_keep: queues that keep done items
SELECT name FROM node WHERE done > 0 AND name > $1 ORDER BY name LIMIT $2;

-- nodes_that_drop_dead: nodes that delete dead items by themselves; the condition is that of the index node_dead_kept
SELECT name FROM node WHERE config LIKE '%"dead_ttl":%' AND config NOT LIKE '%"dead_ttl":null,"dead_max":null%'
    AND name > $1 ORDER BY name LIMIT $2;

-- moved_to: the new address of a deleted node
SELECT uri FROM moved_node WHERE name = $1;

-- affiliations_of: the affiliations with a node
SELECT jid, affiliation, sum FROM affiliation
WHERE node_id = $1 AND jid > $2 AND ($4::json IS NULL OR affiliation IN %(list 4)s)
ORDER BY jid LIMIT $3;

-- affiliations_of_back: the same before a JID
SELECT jid, affiliation, sum FROM affiliation
WHERE node_id = $1 AND jid < $2 AND ($4::json IS NULL OR affiliation IN %(list 4)s)
ORDER BY jid DESC LIMIT $3;

-- count_affiliations_of: their number
SELECT count(*) FROM affiliation
WHERE node_id = $1 AND ($2::json IS NULL OR affiliation IN %(list 2)s);

-- item_ids: the ids of a node's items, oldest first
SELECT i.id FROM item i WHERE i.node_id = $1 AND i.seq > $2 ORDER BY i.seq LIMIT $3;

-- item_ids_back: the same before a number
SELECT i.id FROM item i WHERE i.node_id = $1 AND i.seq < $2 ORDER BY i.seq DESC LIMIT $3;

-- created: the items of a node after a place, by place: those that overwrote nothing, and those that did
SELECT place, seq FROM (
    SELECT * FROM (
        SELECT i.seq AS place, i.seq FROM item i
        WHERE i.node_id = $1 AND i.seq > $2 AND NOT EXISTS (SELECT 1 FROM overwritten o WHERE o.seq = i.seq)
        ORDER BY i.seq LIMIT $3
    ) a UNION ALL SELECT * FROM (
        SELECT o.place, o.seq FROM overwritten o %(join)s item i ON i.seq = o.seq
        WHERE o.contents_id = $1 AND o.place > $2 ORDER BY o.place LIMIT $3
    ) b
) c ORDER BY place LIMIT $3;

-- created_back: the items of a node before a place, by place: those that overwrote nothing, and those that did
SELECT place, seq FROM (
    SELECT * FROM (
        SELECT i.seq AS place, i.seq FROM item i
        WHERE i.node_id = $1 AND i.seq < $2 AND NOT EXISTS (SELECT 1 FROM overwritten o WHERE o.seq = i.seq)
        ORDER BY i.seq DESC LIMIT $3
    ) a UNION ALL SELECT * FROM (
        SELECT o.place, o.seq FROM overwritten o %(join)s item i ON i.seq = o.seq
        WHERE o.contents_id = $1 AND o.place < $2 ORDER BY o.place DESC LIMIT $3
    ) b
) c ORDER BY place DESC LIMIT $3;

-- modified: the items of a node after a number, by number
SELECT i.seq, i.seq FROM item i WHERE i.node_id = $1 AND i.seq > $2 ORDER BY i.seq LIMIT $3;

-- modified_back: the items of a node before a number, by number
SELECT i.seq, i.seq FROM item i WHERE i.node_id = $1 AND i.seq < $2 ORDER BY i.seq DESC LIMIT $3;

-- place_of: the place of an item among the created ones
SELECT coalesce((SELECT place FROM overwritten WHERE seq = $1), $1::bigint);

-- number_further_on: the number of the item this many places after another
SELECT i.seq FROM item i WHERE i.node_id = $1 AND i.seq > $2 ORDER BY i.seq LIMIT 1 OFFSET $3::bigint - 1;

-- newest_item: the highest number of an item in a node
SELECT coalesce(max(seq), 0) FROM item WHERE node_id = $1;

-- newest_death: the highest number of a death in a node
SELECT coalesce(max(death), 0) FROM item WHERE node_id = $1 AND death IS NOT NULL;

-- death_beyond: the newest of the deaths in a node that are not among so many newest
SELECT death FROM item WHERE node_id = $1 AND death IS NOT NULL ORDER BY death DESC LIMIT 1 OFFSET $2::bigint;

-- count_dead: how many of the next dead letters are in the node, how many were examined, and the last one
SELECT count(*) FILTER (WHERE d.state = 'dead'), count(*), max(d.death) FROM (
    SELECT death, state FROM item WHERE node_id = $1 AND death IS NOT NULL AND death > $2 ORDER BY death LIMIT $3
) d;

-- events: a page of the log
SELECT e.seq, e.at, e.kind, n.name, e.item, e.attempt, e.worker, e.publisher, e.age, e.held, e.origin, e.went_to, e.detail
FROM event e %(join)s node n ON n.id = e.node_id
WHERE e.seq > $1 AND e.seq <= $2 AND ($3::json IS NULL OR n.name IN %(list 3)s)
    AND ($4::text IS NULL OR EXISTS (
        SELECT 1 FROM affiliation a
        WHERE a.node_id = n.id AND a.jid = $4::text AND a.affiliation IN %(list 5)s
    )) AND ($7::text IS NULL OR e.item = $7::text)
ORDER BY e.seq LIMIT $6;

-- events_of: the events of one item of a node
SELECT seq, at, kind, item, attempt, worker, publisher, age, held, origin, went_to, detail
FROM event WHERE node_id = $1 AND item = $2 AND seq > $3 ORDER BY seq LIMIT $4;

-- log_ends: the oldest and the newest event; each is one end of the table
SELECT coalesce((SELECT min(seq) FROM event), 0), coalesce((SELECT max(seq) FROM event), 0);

-- aged: the last event before a time, among the oldest ones
SELECT max(e.seq) FROM (SELECT seq, at FROM event ORDER BY seq LIMIT $2) e WHERE e.at < $1;

-- records_of_app: the records of an app; its owner does not change
SELECT %(record)s
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NOT NULL AND t.app_id = (SELECT id FROM txn_app WHERE name = $2 AND owner = coalesce($3::text, owner))
    AND t.id > $1
ORDER BY t.id LIMIT $4;

-- record: a committed version of an app
SELECT %(record)s
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE p.name = $1 AND t.version = $2 AND t.committed IS NOT NULL;

-- newest_records: committed versions of an app up to one, the highest first
SELECT %(record)s
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.app_id = $1 AND t.version <= $2 AND t.committed IS NOT NULL ORDER BY t.version DESC LIMIT $3;

-- forgettable: how many ids of finished work no longer count, or settled locks, keys, answers to pings or deliveries, whichever are most, counted up to a limit
SELECT max(old.count) FROM (
    SELECT count(*) AS count FROM (SELECT 1 FROM finished WHERE until <= $1 LIMIT $2) f
    UNION ALL SELECT count(*) AS count FROM (SELECT 1 FROM settled WHERE until <= $1 LIMIT $2) s
    UNION ALL SELECT count(*) AS count FROM (SELECT 1 FROM used_key WHERE until <= $1 LIMIT $2) k
    UNION ALL SELECT count(*) AS count FROM (SELECT 1 FROM ping_answer WHERE until <= $1 LIMIT $2) p
    UNION ALL SELECT count(*) AS count FROM (SELECT 1 FROM answered WHERE until <= $1 LIMIT $2) a
) old;

-- registrations_of: registrations after a name, of an account and of a node, if these are not empty
SELECT name, account, node, queueing, words, disabled, failures, error, position, following, runner, until, revision, sum
FROM registration WHERE name > $1 AND ($2 = '' OR account = $2) AND ($3 = '' OR node = $3) ORDER BY name LIMIT $4;

-- all_alerts: alerts after a name
SELECT name, since, detail, over_at, reported FROM alert WHERE name > $1 ORDER BY name LIMIT $2;

-- message_bytes: the bytes of a kept message
SELECT message FROM kept_message WHERE mark = $1 AND message IS NOT NULL LIMIT $2;

-- messages_over: messages and answers that have expired, the longest overdue first
SELECT mark, sender, account, msg_id, iq_id, digest, byte_count, held, answer, until FROM kept_message WHERE until <= $1 ORDER BY until LIMIT $2;

-- messages_of: kept messages of an account, or remembered answers, the first to expire first
SELECT mark, sender, account, msg_id, iq_id, digest, byte_count, held, answer, until FROM kept_message
WHERE account = $1 AND held = $2 ORDER BY until LIMIT $3;

-- message_accounts: accounts with kept messages, after a name, and when the first of these expires
SELECT t.account, t.messages, t.byte_count, (SELECT min(m.until) FROM kept_message m WHERE m.account = t.account AND m.held = 1)
FROM message_total t WHERE t.messages > 0 AND t.account > $1 ORDER BY t.account LIMIT $2;

-- unfed: publishes that are copied to queues in slices, the oldest first
SELECT mark FROM feeding ORDER BY mark LIMIT $1;

-- forwarded_to: notices for an instance, with marks between two texts
SELECT mark, notices FROM forwarded WHERE mark > $1 AND mark < $2 ORDER BY mark LIMIT $3;

-- count_apps: how many apps have names between two, counted up to a limit
SELECT count(*) FROM (SELECT 1 FROM txn_app WHERE name >= $1 AND name < $2 LIMIT $3) a;

-- attempts_of: the staged totals of each attempt of an open version
SELECT p.name, t.version, a.part, a.number, a.items, a.bytes, a.known, a.grouped, a.id FROM txn_app p
JOIN txn t ON t.app_id = p.id JOIN attempt a ON a.txn_id = t.id
WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL ORDER BY a.part, a.number LIMIT $3;

-- winner_attempts: attempts at a version, whether it is open or committed
SELECT a.part, a.number, a.id, a.committed FROM txn_app p
JOIN txn t ON t.app_id = p.id JOIN attempt a ON a.txn_id = t.id
WHERE p.name = $1 AND t.version = $2 ORDER BY a.part, a.number;

-- open_version: the row of an open version
SELECT t.id FROM txn_app p JOIN txn t ON t.app_id = p.id WHERE p.name = $1 AND t.version = $2 AND t.committed IS NULL;

-- Rows with their checksums: the place of a row, as a number and a text, its checksum, and what that is about.

-- sums_of_node: all nodes
SELECT id, '', sum, name, config, creator, created
FROM node WHERE id > $1 AND $2 = '' ORDER BY id LIMIT $3;

-- node_without_sum: nodes that have no checksum
SELECT id, '', sum, name, config, creator, created
FROM node WHERE sum IS NULL ORDER BY id + 0 LIMIT $1;

-- sums_of_affiliation: all affiliations
SELECT node_id, jid, sum, node_id, jid, affiliation
FROM affiliation WHERE (node_id, jid) > ($1, $2) ORDER BY node_id, jid LIMIT $3;

-- affiliation_without_sum: affiliations that have no checksum
SELECT node_id, jid, sum, node_id, jid, affiliation
FROM affiliation WHERE sum IS NULL ORDER BY node_id + 0 LIMIT $1;

-- sums_of_subscription: all subscriptions
SELECT id, '', sum, node_id, jid, subid, state, deliver, expire, remind, temporary, several, lock_timeout, qos
FROM subscription WHERE id > $1 AND $2 = '' ORDER BY id LIMIT $3;

-- subscription_without_sum: subscriptions that have no checksum
SELECT id, '', sum, node_id, jid, subid, state, deliver, expire, remind, temporary, several, lock_timeout, qos
FROM subscription WHERE sum IS NULL ORDER BY id + 0 LIMIT $1;

-- sums_of_schedule: all schedules
SELECT 0::bigint, name, sum, name, definition, source, author, fired_through, due, last, error, tries, paused, revision
FROM schedule WHERE name > $2 AND $1 <= 0 ORDER BY name LIMIT $3;

-- schedule_without_sum: schedules that have no checksum
SELECT 0::bigint, name, sum, name, definition, source, author, fired_through, due, last, error, tries, paused, revision
FROM schedule WHERE sum IS NULL ORDER BY name || '' LIMIT $1;

-- sums_of_registration: all registrations
SELECT 0::bigint, name, sum, name, account, node, queueing, words, disabled, failures, error, position, following, runner, until, revision
FROM registration WHERE name > $2 AND $1 <= 0 ORDER BY name LIMIT $3;

-- registration_without_sum: registrations that have no checksum
SELECT 0::bigint, name, sum, name, account, node, queueing, words, disabled, failures, error, position, following, runner, until, revision
FROM registration WHERE sum IS NULL ORDER BY name || '' LIMIT $1;

-- sums_of_txn_app: all apps
SELECT id, '', sum, name, owner, version, committed FROM txn_app WHERE id > $1 AND $2 = '' ORDER BY id LIMIT $3;

-- txn_app_without_sum: apps that have no checksum
SELECT id, '', sum, name, owner, version, committed FROM txn_app WHERE sum IS NULL ORDER BY id + 0 LIMIT $1;

-- sums_of_txn: all versions, open or committed
SELECT id, '', sum, app_id, version, owner, immediate, began, until, committed, on_taken, dead_letter_node
FROM txn WHERE id > $1 AND $2 = '' ORDER BY id LIMIT $3;

-- txn_without_sum: versions that have no checksum
SELECT id, '', sum, app_id, version, owner, immediate, began, until, committed, on_taken, dead_letter_node
FROM txn WHERE sum IS NULL ORDER BY id + 0 LIMIT $1;

-- count_members: how many items have a join, by the columns that those of its members may be, and how many of these are dead
SELECT (SELECT count(*) FROM item WHERE joins >= $1 AND joins < $2),
    (SELECT count(*) FROM item WHERE joins >= $1 AND joins < $2 AND death IS NOT NULL);

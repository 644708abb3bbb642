-- Indexes alone, for pages: nobody has to walk a queue or all nodes to show a part of them. Programs that know only
-- the schema before this one could run on it.

-- A node's items in the order of their numbers, which every index has behind its columns.
CREATE INDEX item_node ON item (node_id);

-- Nodes by who may look at them.
CREATE INDEX node_access ON node (json_extract(config, '$.access_model'), name);

-- Subscribers that can take something: where nobody can, nothing of a queue has to be looked at.
CREATE INDEX subscription_free ON subscription (node_id) WHERE available AND in_flight < queue_requests;

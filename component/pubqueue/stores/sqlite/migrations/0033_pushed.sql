-- Nodes whose labels have an endpoint to which their items are pushed: each instance reads them whenever another has written.
CREATE INDEX node_pushed ON node (name) WHERE config LIKE '%x-pubqueue-push=%';

-- Nodes that delete dead items by themselves, by name: `dead_ttl` or `dead_max` is set. The two stand side by side in the settings.
CREATE INDEX node_dead_kept ON node (name) WHERE config LIKE '%"dead_ttl":%' AND config NOT LIKE '%"dead_ttl":null,"dead_max":null%';

-- Who comes or goes is asked for by exactly its JID: its account may have thousands of others.
CREATE INDEX subscription_jid ON subscription (jid);

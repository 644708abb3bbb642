-- A subscription may have a level of its own (urn:xmpp:qos), and of each full JID that is here it is known whether its client has the
-- extension; NULL: not known. Programs without them deliver messages.
ALTER TABLE subscription ADD COLUMN qos text CHECK (qos IN ('unacknowledged', 'acknowledged', 'assured'));
ALTER TABLE resource ADD COLUMN qos boolean;

-- Answers to deliveries that came to an instance which had not sent them, by lock tokens: whether the delivery has arrived, or its bytes
-- have been received. To be forgotten at `until`, when the lock is over.
CREATE TABLE answered (
    token   bigint  PRIMARY KEY,
    arrived bigint NOT NULL,
    until   bigint NOT NULL
);

CREATE INDEX answered_until ON answered (until);

-- Presence is kept of those who have an affiliation or a subscription, or hold an item; earlier programs kept that of strangers too.
DELETE FROM resource WHERE NOT EXISTS (SELECT 1 FROM affiliation a WHERE a.jid = resource.account)
AND NOT EXISTS (SELECT 1 FROM subscription s WHERE s.account = resource.account)
AND NOT EXISTS (SELECT 1 FROM item i WHERE left(i.holder, 500) = left(resource.account, 500) AND i.holder = resource.account AND i.state = 'locked')
AND NOT EXISTS (SELECT 1 FROM item i WHERE left(i.holder, 500) = left(resource.jid, 500) AND i.holder = resource.jid AND i.state = 'locked');

-- Of each full JID that is here the lock token before which it showed itself last.
ALTER TABLE resource ADD COLUMN since bigint NOT NULL DEFAULT 0;

"""From stanzas to requests, a module for each kind; the table `verbs` says which belongs to which stanza."""

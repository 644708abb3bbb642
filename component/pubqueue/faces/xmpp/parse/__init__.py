"""From stanzas to requests, a module for each kind; the table `verbs` maps stanzas to them."""

"""The profile `rest-star`: REST-* Messaging, drafts 3 to 5, as described in its posts."""

"""The session of a client that has logged in, without sockets: `session` is the whole, the other modules its parts."""

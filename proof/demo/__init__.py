"""The demo, the rehearsal and the examples, run as a reader runs them."""

"""One queue that clients of XMPP, STOMP, HTTP and gRPC publish to and work off at the same time, each a client as it is published."""

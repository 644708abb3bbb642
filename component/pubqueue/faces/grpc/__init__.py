"""The face of gRPC: `tech.pubsub` and `google.pubsub.v1`, two bindings of the same topics and queues.

Nothing here is imported unless gRPC is configured.
"""

"""The binding `v1beta1a`: `tech.pubsub` in JSON over HTTP, as Google's discovery document has it."""

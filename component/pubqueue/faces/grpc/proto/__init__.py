"""The protocol of gRPC as data: `.proto` files, the descriptors that `tools/protos` makes of them, and their types."""

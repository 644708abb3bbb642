"""gRPC compared with a bare handler of grpc.aio on the same messages, and with XMPP on a direct stream, on this machine
and in the same run.

The clients write ready-made bytes, and read from an answer only what the next request needs. Compare only ratios of one
run.
"""

"""The table `[grpc]`: its settings, the addresses of gRPC, and the settings of the face."""

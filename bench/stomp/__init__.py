"""STOMP compared with other queues: pubqueue, RabbitMQ with its STOMP plugin, and beanstalkd with its own protocol.

All run on this machine, in the same run and in turns, with the same thin client (`thin`); compare the ratios. The
brokers have their own configurations and folders, and free loopback ports (`brokers`).
"""

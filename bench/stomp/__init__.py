"""STOMP compared with other queues: pubqueue, RabbitMQ with its STOMP plugin, beanstalkd, Redis, and Procrastinate on PostgreSQL.

All run on this machine, in the same run and in turns, with thin clients (`thin`, `others`), except Procrastinate, which is a library; compare
the ratios. The brokers have their own configurations and folders, and free loopback ports (`brokers`).
"""

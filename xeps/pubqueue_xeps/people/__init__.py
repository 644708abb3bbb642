"""People as workers: questions that people answer in their chat clients (`pubqueue people`).

`questions`, `answers` and `turns` are rules: pure functions, and values. `stanzas` has their words in XML. `chat` is the connection
of the bot to people and rooms, `bot` the worker.
"""

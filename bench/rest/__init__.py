"""REST compared with a bare handler of aiohttp: the same requests, on this machine, in the same run and in turns.

The clients are raw (`raw`): they write ready-made bytes, and read only the status, the length and the needed link of an
answer. Compare the ratios to the bare handler, which reads the body and answers 201 with two fields (`bare`).
"""

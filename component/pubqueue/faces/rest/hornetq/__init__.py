"""The profile `hornetq`: the REST interface of HornetQ, which clients of its successors speak too."""

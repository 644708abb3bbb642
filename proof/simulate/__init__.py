"""The queue on virtual time: several instances on one store, a network, workers and publishers, and what befalls them.

Everything is drawn from one seed, so a run that fails is repeated exactly: `python -m proof.simulate --seed N`. Beside it an
oracle follows every commit and every word that is said.
"""

"""How fast the component is, and what an item's life costs it: `make bench`.

An item's life is six stanzas of the component: publish in, result out, delivery out, retract in,
result out, retract event out. The component does them durably, on SQLite. It is compared with
others that store nothing, in the same run, on the same work, in turns (`lean.py`, `same_words.py`, `documented.py`), so
that the figures that matter are ratios and the machine's speed cancels out.
"""

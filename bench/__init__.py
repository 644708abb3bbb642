"""How fast the component is, and what an item's life costs it: `make bench`.

An item's life is six stanzas of the component: publish in, result out, delivery out, retract in,
result out, retract event out. The component does them durably, on SQLite. It is compared with
others that store nothing, in the same run, on the same work, in turns (`lean.py`, `same_words.py`, `documented.py`), so
that the figures that matter are ratios and the machine's speed cancels out.
"""

import sys
from pathlib import Path

# servers, clocks and requests of the tests' harness; `python -m bench` is run at the project's root
sys.path.append(str(Path(__file__).parent.parent / "tests"))

"""Measures the speed of the component, and the cost of an item's life: `make bench`.

An item's life is six stanzas of the component: publish in, result out, delivery out, retract in, result out, retract
event out. The component stores items durably, on SQLite. It is compared with components that store nothing (`lean.py`,
`same_words.py`, `documented.py`), in turns in the same run with the same work, so that ratios do not depend on the
machine's speed.
"""

import sys
from pathlib import Path

# servers, clocks and requests of the tests' harness; run `python -m bench` in the project's root
sys.path.append(str(Path(__file__).parent.parent / "tests"))

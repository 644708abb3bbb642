"""Programs that prove more than a commit needs: `README.md` says what each of them proves, and how it is run."""

import sys
from pathlib import Path

# servers, stores and clients of the tests' harness; run `python -m proof.…` in the project's root
sys.path.append(str(Path(__file__).parent.parent / "tests"))

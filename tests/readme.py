"""Code blocks of a README, to be run as a reader would."""

import re
from pathlib import Path


def code_blocks(readme: Path) -> list[str]:
    """The Python blocks, in order."""
    return re.findall(r"^```python\n(.*?)^```", readme.read_text(), flags=re.DOTALL | re.MULTILINE)

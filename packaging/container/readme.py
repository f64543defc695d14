"""The shell commands of README.md (section Install) and of contrib/guides/install.md. The checks run them as they are written."""

import re
from pathlib import Path

from harness import RESULTS, Failed

HOME = "/home/anna"


def blocks():
    """The shell blocks of both documents, without duplicates. A block is a string of command lines."""
    readme = Path(RESULTS, "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Install\n(.*?)^## ", readme, re.DOTALL | re.MULTILINE)
    if not section:
        raise Failed("README.md has no section Install")
    texts = [section[1], Path(RESULTS, "install.md").read_text(encoding="utf-8")]
    found = [block for text in texts for block in re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]
    return list(dict.fromkeys(block.strip() for block in found))


def block(beginning):
    """The block that begins with a text. It fails if the documents have different ones."""
    matches = [one for one in blocks() if one.startswith(beginning)]
    if len(matches) != 1:
        raise Failed(f"README.md and install.md have {len(matches)} different blocks that begin with '{beginning}'")
    return matches[0]


def login(script):
    """A command line that runs a script as Anna, freshly logged in, where she has the sources checked out."""
    return ("runuser", "--login", "anna", "--command", f"cd larder && set -eux\n{script}")

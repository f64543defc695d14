"""The commands of the section Install of README.md, as blocks: what stands there is what is run here."""

import re
from pathlib import Path

from harness import RESULTS, Failed

HOME = "/home/anna"


def blocks():
    """The shell blocks of the section, each a list of commands."""
    text = Path(RESULTS, "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Install\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    if not section:
        raise Failed("README.md has no section Install")
    found = re.findall(r"^```sh\n(.*?)^```$", section[1], re.DOTALL | re.MULTILINE)
    return [block.strip() for block in found]


def block(beginning):
    """The one block that begins so."""
    matches = [one for one in blocks() if one.startswith(beginning)]
    if len(matches) != 1:
        raise Failed(f"README.md has {len(matches)} blocks in its section Install that begin with '{beginning}'")
    return matches[0]


def login(script):
    """A command line that runs a script as Anna, freshly logged in, where she has the sources checked out."""
    return ("runuser", "--login", "anna", "--command", f"cd larder && set -eux\n{script}")

"""Pages of the site that stand at the repository's root; links lead to the same places here and there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
AT_THE_ROOT = ("RESULTS.md", "CHANGELOG.md", "CONTRIBUTING.md")


def on_files(files: Files, config: Any) -> Files:
    for name in AT_THE_ROOT:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    for name in AT_THE_ROOT:  # one folder up; from a folder of docs/, two
        markdown = re.sub(rf"\]\(\.\./((?:\.\./)*{re.escape(name)})", r"](\1", markdown)
    return markdown

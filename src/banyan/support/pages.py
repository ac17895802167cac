"""The content-security policy of a page that consists of one file."""

from __future__ import annotations

import base64
import hashlib


def policy(script: str, style: str, connect: str = "'none'") -> str:
    """Allow this script and this style sheet, and nothing else. connect: where the script may send requests."""
    parts = ["default-src 'none'", f"script-src {_hash(script)}", f"style-src {_hash(style)}", f"connect-src {connect}"]
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

"""The /docs page: the OpenAPI document as HTML that loads nothing from other servers."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from banyan.support.pages import policy


def html(document: dict[str, Any]) -> bytes:
    title = escape(document["info"]["title"])
    routes = [_route(path, *operation) for path, found in document["paths"].items() for operation in found.items()]
    about = escape(document["info"]["description"])
    parts = [f"<h1>{title}</h1><p>{about} <a href=openapi.json>openapi.json</a></p>", *routes]
    page = _PAGE.replace("STYLE", _STYLE).replace("SCRIPT", _SCRIPT).replace("TITLE", title)
    return page.replace("ROUTES", "\n".join(parts)).encode()


def _route(path: str, method: str, operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    parts = [f"<h2><b>{method.upper()}</b> {path}</h2><p>{escape(operation['summary'])}.</p>"]
    if content:
        parts += [_fields(content["schema"]), _try(path, content["example"])]
    elif "text/html" not in operation["responses"]["200"].get("content", {}):  # this page itself
        parts.append(f"<p><a href={_relative(path)}>open</a></p>")
    answers = [f"<dt>{status}<dd>{escape(answer['description'])}" for status, answer in operation["responses"].items()]
    parts.append(f"<details><summary>Answers</summary><dl>{''.join(answers)}</dl></details>")
    return f"<section>{''.join(parts)}</section>"


def _fields(schema: dict[str, Any]) -> str:
    rows = []
    for name, field in schema["properties"].items():
        needed = "" if name in schema["required"] else "<i>optional</i>"
        rows.append(f"<tr><td><code>{name}</code><td>{escape(_words(field))}<td>{needed}")
    return f"<table>{''.join(rows)}</table>"


def _words(schema: dict[str, Any]) -> str:
    """Describe a schema in a few words."""
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"] if value is not None)
    if "anyOf" in schema:
        return " or ".join(_words(part) for part in schema["anyOf"] if part != {"type": "null"})
    if schema["type"] == "array":
        most = f" (at most {schema['maxItems']:,})" if "maxItems" in schema else ""
        return f"list of {_words(schema['items'])}{most}"
    if schema["type"] == "object":
        return "object: " + "; ".join(f"{name}: {_words(part)}" for name, part in schema["properties"].items())
    if "maximum" in schema:
        return f"{schema['type']} from {schema['minimum']:,} to {schema['maximum']:,}"
    return str(schema["type"])


def _relative(path: str) -> str:
    """The path as seen from /docs, also behind a proxy that serves it elsewhere."""
    return path[1:] or "."


def _try(path: str, example: Any) -> str:
    body = escape(json.dumps(example, ensure_ascii=False))
    fields = f"<textarea rows=3>{body}</textarea><button>Send</button><pre hidden></pre>"
    return f"<form data-path={_relative(path)}>{fields}</form>"


_PAGE = """<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>TITLE</title><style>STYLE</style>
<label>API key, if the server needs one: <input id=key type=password autocomplete=off></label>
ROUTES
<script>SCRIPT</script></html>"""

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 b { color: #1f7a52 } h2 { font: 600 1.05rem ui-monospace, monospace; margin: 0 }
section { border-top: 1px solid #8884; padding: 1rem 0 } p { margin: .2rem 0 .6rem }
td { padding: .1rem .8rem .1rem 0; vertical-align: top } dt { float: left; width: 3rem }
textarea, pre { width: 100%; box-sizing: border-box; font: 13px ui-monospace, monospace }
pre { max-height: 16rem; overflow: auto; background: #8882; padding: .6rem; white-space: pre-wrap }
"""

_SCRIPT = """
for (const form of document.forms) form.onsubmit = async event => {
  event.preventDefault()
  const key = document.getElementById("key").value, shown = form.querySelector("pre")
  const headers = {"content-type": "application/json", ...(key && {authorization: "Bearer " + key})}
  const answer = await fetch(form.dataset.path, {method: "POST", headers, body: form.querySelector("textarea").value})
  shown.hidden = false
  shown.textContent = answer.status + " " + await answer.text()
}
"""

POLICY = policy(_SCRIPT, _STYLE, connect="'self'") + "; frame-ancestors 'none'"

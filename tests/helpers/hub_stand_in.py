"""A Hugging Face Hub in a folder: the few addresses that pushing and fetching a model ask for, over real HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

TOKEN = "hf_of_the_tests"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        path, body = urlsplit(self.path).path, self._body()
        if path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._json({"error": "Invalid username or password."}, 401)
        if path == "/api/repos/create":
            asked = json.loads(body)
            repo = f"{asked['organization']}/{asked['name']}"
            (self.server.folder / repo).mkdir(parents=True, exist_ok=True)
            return self._json({"url": f"{self.server.address}/{repo}"})
        if path.endswith("/preupload/main"):  # as the Hub does, weights by another way than text
            ways = [(file["path"], "lfs" if file["path"].endswith(".safetensors") else "regular")
                    for file in json.loads(body)["files"]]  # fmt: skip
            return self._json({"files": [{"path": p, "uploadMode": way, "shouldIgnore": False} for p, way in ways]})
        if path.endswith("/info/lfs/objects/batch"):
            return self._json({"transfer": "basic", "objects": [self._upload(o) for o in json.loads(body)["objects"]]})
        if found := re.fullmatch("/api/models/(.+)/commit/main", path):
            return self._json(self._commit(found[1], body))
        return self._json({"error": f"not in this stand-in: POST {path}"}, 404)

    def _upload(self, wanted: dict) -> dict:
        return {**wanted, "actions": {"upload": {"href": f"{self.server.address}/objects/{wanted['oid']}"}}}

    def _commit(self, repo: str, body: bytes) -> dict:
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                (self.server.folder / repo / value["path"]).write_bytes(base64.b64decode(value["content"]))
            elif line["key"] == "lfsFile":
                (self.server.folder / repo / value["path"]).write_bytes(self.server.objects[value["oid"]])
        sha = self._sha(repo)
        return {"success": True, "commitOid": sha, "commitUrl": f"{self.server.address}/{repo}/commit/{sha}"}

    def do_PUT(self) -> None:
        body = self._body()
        self.server.objects[hashlib.sha256(body).hexdigest()] = body
        self._json({})

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if found := re.fullmatch("/api/models/([^/]+/[^/]+)(/revision/.+)?", path):
            if not (self.server.folder / found[1]).is_dir():
                return self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
            return self._json({"id": found[1], "sha": self._sha(found[1]), "siblings": self._files(found[1])})
        if found := re.fullmatch("/api/models/([^/]+/[^/]+)/tree/.+", path):
            files = [(file.name, file.read_bytes()) for file in sorted((self.server.folder / found[1]).iterdir())]
            return self._json([{"type": "file", "path": p, "size": len(data), "oid": _oid(data)} for p, data in files])
        if found := re.fullmatch("/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            file = self.server.folder / found[1] / found[2]
            if not file.is_file():
                return self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            data = file.read_bytes()
            return self._answer(data, 200, {"X-Repo-Commit": self._sha(found[1]), "ETag": f'"{_oid(data)}"'})
        return self._json({"error": f"not in this stand-in: GET {path}"}, 404)

    do_HEAD = do_GET

    def _files(self, repo: str) -> list[dict]:
        return [{"rfilename": file.name} for file in sorted((self.server.folder / repo).iterdir())]

    def _sha(self, repo: str) -> str:
        contents = b"".join(file.read_bytes() for file in sorted((self.server.folder / repo).iterdir()))
        return hashlib.sha1(contents).hexdigest()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _json(self, answer: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._answer(json.dumps(answer).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def _answer(self, body: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.objects: dict[str, bytes] = {}
        self.address = f"http://127.0.0.1:{self.server_port}"


@contextmanager
def hub(folder: Path) -> Iterator[str]:
    """Runs on a port of its own while the block does: its address."""
    server = _Server(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

#!/usr/bin/env python3
# tests/bench/pull_layout.py -- what weft pull leaves in the cache, by huggingface_hub's own eyes: a
# folder is served on the loopback as the hub serves one, fetched, and then found without a network
# by snapshot_download and by transformers. By hand:
#   PYTHON tests/bench/pull_layout.py build/cli/weft FOLDER
import hashlib
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading

COMMIT, NAME = "0123456789abcdef0123456789abcdef01234567", "org/tiny"


def entry(folder, name):
    data = open(os.path.join(folder, name), "rb").read()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    out = {"rfilename": name, "size": len(data), "blobId": blob}
    if name.endswith(".safetensors"):
        out["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    return out


def handler(folder):
    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.split("?")[0]
            if path == f"/api/models/{NAME}/revision/main":
                files = [entry(folder, name) for name in sorted(os.listdir(folder))]
                body = json.dumps({"sha": COMMIT, "siblings": files}).encode()
            else:
                body = open(os.path.join(folder, os.path.basename(path)), "rb").read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *rest):
            pass

    return Hub


def main():
    weft, folder = sys.argv[1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(HF_HUB_CACHE=cache, HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}")
        pulled = subprocess.run([weft, "pull", NAME], capture_output=True, text=True, check=True)
        os.environ["HF_HUB_OFFLINE"] = "1"
        import huggingface_hub
        import transformers

        found = huggingface_hub.snapshot_download(NAME, local_files_only=True)
        assert found == pulled.stdout.strip(), (found, pulled.stdout)
        info = huggingface_hub.scan_cache_dir()
        assert not info.warnings and [r.repo_id for r in info.repos] == [NAME], info
        model = transformers.AutoModelForCausalLM.from_pretrained(NAME)
        print(f"found: {found}, {info.size_on_disk} bytes, {type(model).__name__}")
        subprocess.run([weft, "info", NAME], check=True)


main()

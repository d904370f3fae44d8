"""Stand-ins for peers: programs that serve HTTP, and llama.cpp's library behind its Python bindings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

SERVER = '''
"""Serves one function of the path and the wish; answers /health."""
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self): self.reply(200, {})
    def do_POST(self):
        wish = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = answered(self.path, wish)
        self.reply(200 if answer is not None else 400, answer)
    def reply(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

def option(name): return sys.argv[sys.argv.index(name) + 1]
def serve(): HTTPServer(("127.0.0.1", int(option("--port"))), Handler).serve_forever()
'''

LLAMA = '''
"""Like llama-server: a token takes 10 ms, 5 in an n-gram mode, half of that of a Q8_0; what was restored is warm."""
from pathlib import Path
cached = []

def answered(path, wish):
    global cached
    states = Path(option("--slot-save-path"))
    if path.startswith("/slots/0"):
        state = states / wish["filename"]
        if path.endswith("save"):
            state.write_text(json.dumps(cached))
        cached = json.loads(state.read_text())
        return {}
    new = max(1, len(wish["prompt"]) - len(cached))
    cached = wish["prompt"]
    pace = (5.0 if "--spec-type" in sys.argv else 10.0) / (2 if "q8" in option("--model") else 1)
    written = wish["n_predict"] if wish["ignore_eos"] and wish["temperature"] == 0 else 0
    predicted = {"predicted_n": written, "predicted_ms": pace * (written - 1)}
    return {"timings": {"prompt_n": new, "prompt_ms": pace, **predicted}}

serve()
'''


LIBRARY = '''
"""A llama_cpp whose Q8_0 without flash attention is fast, and that fails where positions do not follow each other."""
import ctypes, time
from types import SimpleNamespace as Some

PAUSES = {("file.gguf", 0): 0.004, ("file.gguf", 1): 0.005, ("q8", 0): 0.001, ("q8", 1): 0.003}

class Settings(ctypes.Structure):
    _fields_ = [("ftype", ctypes.c_int), ("allow_requantize", ctypes.c_bool), ("nthread", ctypes.c_int)]

def llama_backend_init(): pass
def llama_print_system_info(): return b"STAND-IN = 1 | "
def llama_model_default_params(): return None
def llama_model_quantize_default_params(): return Settings()
def llama_model_quantize(path, out, settings):
    open(out.decode(), "wb").write(b"q8")
    return 0
def llama_model_load_from_file(path, settings):
    return None if b"broken" in path else ("q8" if b"q8" in path else "file.gguf")
def llama_context_default_params():
    return Some(n_ctx=0, n_threads=0, n_threads_batch=0, n_batch=2048, flash_attn_type=-1)
def llama_init_from_model(model, settings): return Some(pause=PAUSES[model, settings.flash_attn_type], length=0)
def llama_batch_init(size, embd, sequences):
    return Some(n_tokens=0, token=[0] * size, pos=[0] * size, n_seq_id=[0] * size, seq_id=[[0] for _ in range(size)],
                logits=[0] * size)
def llama_get_memory(context): return context
def llama_memory_seq_rm(context, sequence, start, end): context.length = start
def llama_get_logits_ith(context, row): return None
def llama_decode(context, batch):
    if batch.pos[0] != context.length:
        return -1
    context.length += batch.n_tokens
    time.sleep(context.pause)
    return 0
'''


def program(folder: Path, text: str) -> Path:
    """A program of that name in the folder, which runs `text` behind SERVER."""
    path = folder / "server"
    path.write_text(f"#!{sys.executable}\n{SERVER}{text}", encoding="utf-8")
    path.chmod(0o755)
    return path


def bindings(folder: Path, text: str) -> Path:
    """The folder, with `text` in the place of llama-cpp-python's bindings."""
    package = folder / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "llama_cpp.py").write_text(text, encoding="utf-8")
    return folder


def environment(folder: Path) -> dict[str, str]:
    """In which a Python imports `llama_cpp` from the folder."""
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}

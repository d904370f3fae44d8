"""Serves a GGUF file with xllamacpp, which is llama.cpp compiled for many machines, until it is killed.

Run as `python -m ghostdraft.benchmarks.xllamacpp_server FILE FLASH CONTEXT THREADS STATES PORT`; FLASH is 0 or 1.
"""

from __future__ import annotations

import sys
import threading

import xllamacpp


def main(file: str, flash: str, context: str, threads: str, states: str, port: str) -> None:
    settings = xllamacpp.CommonParams()
    settings.model.path = file
    settings.flash_attn_type = int(flash)
    settings.n_ctx, settings.n_parallel = int(context), 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int(threads)
    settings.cache_ram_mib, settings.slot_save_path = 0, f"{states}/"
    settings.port = int(port)
    server = xllamacpp.Server(settings)  # it serves as long as it is referred to
    threading.Event().wait()
    del server


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The user's own files in the decoding bench: those that cannot be used are told in a sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ghostdraft.benchmarks import own_files
from ghostdraft.benchmarks.own_files import NoHoles


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.platform
def test_files_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"abc\xff\xfe")
    os.mkfifo(tmp_path / "pipe.py")
    expected = {"none.py": "No such file or directory", "binary.py": r"\(byte 3\)", "pipe.py": "not a plain file"}
    for name, said in expected.items():
        with pytest.raises(NoHoles, match=said) as caught:
            own_files.cursors([tmp_path / name], 1)
        assert "codec" not in str(caught.value)
        assert "Errno" not in str(caught.value)

"""Starting up is cheap: no framework is loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVER = {"fastapi", "pydantic", "starlette", "uvicorn"}
FRAMEWORKS = {"torch", "onnx", "onnxruntime", "h5py", "scipy", "jax", "tensorflow", "transformers", "gguf"}


def modules_after(code: str) -> set[str]:
    report = "\nimport sys; sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stderr.split()}


HELP = """
import sys
sys.argv = ["firstdiff", "--help"]
from firstdiff.cli.main import main
try:
    main()
except SystemExit as stop:
    assert not stop.code
"""


@pytest.mark.parametrize("code", ["import firstdiff", HELP], ids=["import", "help"])
def test_no_framework_is_loaded(code: str) -> None:
    assert modules_after(code).isdisjoint(FRAMEWORKS | SERVER | {"numpy"})


def test_a_trace_opens_without_a_framework(tmp_path) -> None:
    code = f"""
import numpy as np
np.save({str(tmp_path / "x.npy")!r}, np.zeros(3))
from firstdiff.readers import open_trace
open_trace({str(tmp_path)!r}).tensors[0].values().window(0, 3)
"""
    assert modules_after(code).isdisjoint(FRAMEWORKS)


def test_comparing_loads_no_network_and_no_parsers(tmp_path) -> None:
    code = f"""
import sys
import numpy as np
sys.argv = ["firstdiff", "compare", {str(tmp_path / "x.npy")!r}, {str(tmp_path / "x.npy")!r}]
np.save(sys.argv[2], np.zeros(3))
from firstdiff.cli.main import main
try:
    main()
except SystemExit as stop:
    assert not stop.code
"""
    assert modules_after(code).isdisjoint(FRAMEWORKS | SERVER | {"ssl", "http", "xml", "tomllib"})

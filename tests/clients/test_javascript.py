"""The JavaScript client: its own tests in node, numpy's view of its files, and the package as it is published."""

from __future__ import annotations

import json
import tarfile
from itertools import product
from pathlib import Path

import hatch_build
import numpy as np
import pytest

from firstdiff import dtypes
from tests.clients.javascript import CLIENT, built_client, run_node

# one worker builds the client, once
pytestmark = pytest.mark.xdist_group("javascript-client")


@pytest.fixture(scope="module", autouse=True)
def client() -> Path:
    return built_client()


@pytest.mark.parametrize("file", sorted((CLIENT / "tests").glob("*.test.mjs")), ids=lambda file: file.stem)
def test_its_own_tests_pass(file: Path) -> None:
    done = run_node("--test", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 0" not in done.stdout


def test_npy_files_are_numpys_byte_for_byte(client: Path, tmp_path: Path) -> None:
    shapes: list[tuple[int, ...]] = [(), (3,), (2, 0, 5), (123456,), (1,) * 30]
    expected = {}
    for number, (dtype, shape) in enumerate(product("f8 f4 f2 c16 c8 b1 i8 i4 i2 i1 u8 u4 u2 u1".split(), shapes)):
        file = tmp_path / f"{number}.npy"
        np.save(file, (np.arange(np.prod(shape, dtype=int)) % 100).reshape(shape).astype(dtype))
        expected[file] = file.read_bytes()
    script = f"""
        import {{ readdirSync, readFileSync, writeFileSync }} from "node:fs";
        import {{ readNpy, writeNpy }} from {json.dumps((client / "index.js").as_uri())};
        for (const file of readdirSync(".")) {{
          const tensor = readNpy(readFileSync(file));
          writeFileSync(file, "");
          writeFileSync(file, writeNpy(tensor));
        }}
    """
    done = run_node("--input-type=module", "-e", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for file, content in expected.items():
        assert file.read_bytes() == content


def test_every_pattern_of_narrow_bits_has_the_value_that_numpy_gives_it(client: Path, tmp_path: Path) -> None:
    types = [name for name in dtypes.BY_NAME if name.startswith(("float8", "bfloat16", "float16"))]
    script = f"""
        import {{ writeFileSync }} from "node:fs";
        import {{ dtypeOf, valueReader }} from {json.dumps((client / "dtypes.js").as_uri())};
        for (const dtype of {json.dumps(types)}) {{
          const kind = dtypeOf(dtype);
          const bits = new kind.array(new ArrayBuffer(kind.itemsize * 256 ** kind.itemsize)).map((_, index) => index);
          const read = valueReader({{ dtype, shape: [bits.length], data: bits }});
          writeFileSync(dtype, new Uint8Array(Float64Array.from(bits, (_, index) => read(index)).buffer));
        }}
    """
    done = run_node("--input-type=module", "-e", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in types:
        dtype = dtypes.from_name(name)
        bits = np.arange(256**dtype.itemsize, dtype=f"u{dtype.itemsize}")
        np.testing.assert_array_equal(np.fromfile(tmp_path / name), dtypes.doubles(bits.view(dtype)), err_msg=name)


def test_the_package_holds_code_types_and_licence(tmp_path: Path) -> None:
    hatch_build.npm("pack", "--ignore-scripts", "--pack-destination", str(tmp_path), folder=CLIENT)
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
        package = json.load(archive.extractfile("package/package.json"))  # type: ignore[arg-type]
    assert "dependencies" not in package
    for entry in package["exports"].values():
        for target in entry.values() if isinstance(entry, dict) else [entry]:
            assert target.removeprefix("./") in names
    assert {"LICENSE", "README.md", "src/rng.ts"} <= names
    assert not [name for name in names if name.startswith(("tests/", "node_modules/", "package-lock"))]


def test_its_version_is_that_of_the_package() -> None:
    from firstdiff import __version__

    assert json.loads((CLIENT / "package.json").read_text())["version"] == __version__

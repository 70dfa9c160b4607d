"""The example of a C++ program: an exported model with an operator in C, run without Python; and the page about it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
EXAMPLE, PAGE = ROOT / "examples/cpp", ROOT / "docs/cpp.md"
TORCH = Path(torch.__file__).parent


def test_the_page_shows_the_files():
    shown = dict(re.findall(r"^<!-- (\S+) -->\n```\w+\n(.*?)^```$", PAGE.read_text(), re.M | re.S))
    assert shown == {f"examples/cpp/{name}": (EXAMPLE / name).read_text() for name in ("export.py", "main.cpp")}


def run(*command, folder, **environment):
    result = subprocess.run(
        list(map(str, command)), cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return result.returncode, result.stdout, result.stderr


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with the model and the operator, and the numbers that Python computes."""
    folder = tmp_path_factory.mktemp("cpp")
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    status, printed, said = run(sys.executable, EXAMPLE / "export.py", folder=folder, **cache)
    assert status == 0, said
    assert {path.name for path in folder.iterdir()} >= {"model.pt2", "smooth.so"}
    return folder, list(map(float, printed.split()))


@pytest.fixture(scope="module")
def program(exported):
    """The program, made by the commands that the page shows."""
    folder, _ = exported
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    _, where, build, _ = commands.splitlines()
    shutil.copy(EXAMPLE / "main.cpp", folder)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    status, _, said = run("sh", "-c", f"{where}\n{build}", folder=folder, PATH=path)
    assert status == 0, said
    return folder / "run_model"


@pytest.mark.slow
def test_it_computes_what_python_computes(exported, program):
    folder, expected = exported
    status, printed, said = run(program, folder=folder)
    assert status == 0, said
    assert len(expected) == 16
    torch.testing.assert_close(torch.tensor(list(map(float, printed.split()))), torch.tensor(expected))


@pytest.mark.slow
def test_no_python_is_loaded(exported, program):
    folder, _ = exported
    status, _, _ = run(program, folder=folder, LD_DEBUG="files", LD_DEBUG_OUTPUT=str(folder / "loaded"))
    assert status == 0
    (log,) = folder.glob("loaded.*")
    loaded = {Path(name).name for name in re.findall(r"calling init: (\S+)", log.read_text())}
    assert {"smooth.so", "libtorch_cpu.so"} <= loaded
    assert any(name.endswith(".wrapper.so") for name in loaded)  # the model
    assert [name for name in loaded if "python" in name] == []


@pytest.mark.slow
def test_without_the_library_the_model_does_not_load(exported, program, tmp_path):
    folder, _ = exported
    shutil.copy(folder / "model.pt2", tmp_path)
    status, _, said = run(program, folder=tmp_path)
    assert (status, said) == (1, "./smooth.so: cannot open shared object file: No such file or directory\n")
    (tmp_path / "empty.c").touch()
    assert run("cc", "-shared", "empty.c", "-o", "smooth.so", folder=tmp_path)[0] == 0
    status, _, said = run(program, folder=tmp_path)
    assert status != 0
    (name,) = re.findall(r"Could not find schema for (\S+)\.", said)
    assert f"Could not find schema for {name}`" in " ".join(PAGE.read_text().split())


@pytest.mark.slow
def test_cmake_builds_it_too(exported):
    folder, expected = exported
    prefix = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
    for command in (["cmake", prefix, "-S", EXAMPLE, "-B", "build"], ["cmake", "--build", "build"]):
        status, _, said = run(*command, folder=folder)
        assert status == 0, said
    status, printed, said = run(folder / "build/run_model", folder=folder)
    assert status == 0, said
    torch.testing.assert_close(torch.tensor(list(map(float, printed.split()))), torch.tensor(expected))

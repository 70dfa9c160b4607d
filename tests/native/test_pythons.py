"""The part of a kernel library that calls Python, loaded by every Python that this machine has."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from torchgraft._build.toolchain import HEADER, SHIM

# Libraries are loaded without Python's lock, and ready calls hold it.
PROGRAM = """
import ctypes, sys
torch, library = sys.argv[1:]
ctypes.CDLL(torch, mode=ctypes.RTLD_GLOBAL)
load = ctypes.CDLL(library).tg_load
load.restype = ctypes.c_char_p
print(load(torch.encode()))

class Tensor:
    def data_ptr(self):
        return 2**40 + 1

address = ctypes.PyDLL(library).tg_address
address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object]
print(address(Tensor()) - 2**40)
"""
LIBRARY = f"""
#include "{SHIM}"
TG_EXPORT const char *tg_load(const char *torch) {{ return tg_find_symbols(torch); }}
TG_EXPORT char *tg_address(tg_python tensor) {{ return tg_data(tensor); }}
"""


def pythons():
    """The newest Python of each version that torchgraft serves."""
    found = {}
    for minor in range(11, 16):
        installed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        named = shutil.which(f"python3.{minor}")
        for program in [*installed, *([named] if named else [])]:
            works = subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0
            if works:
                found[f"3.{minor}"] = str(program)
    return found


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """What stands in for libtorch, with all names that are looked up, and a library."""
    folder = tmp_path_factory.mktemp("pythons")
    table = HEADER.read_text().partition("#define TG_SYMBOLS(X)")[2].partition("#define TG_NEWER_SYMBOLS")[0]
    names = re.findall(r"X\([\w ]+\*?,\s+(\w+),", table)
    assert len(names) > 20
    (folder / "torch.c").write_text("\n".join(f"void {name}(void) {{}}" for name in names))
    (folder / "library.c").write_text(LIBRARY)
    paths = []
    for name, made in (("torch.c", "libtorch_cpu.so"), ("library.c", "library.so")):
        command = ["cc", "-shared", "-fPIC", "-w", f"-I{HEADER.parent}", folder / name, "-o", folder / made, "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        paths.append(folder / made)
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("version", pythons())
def test_a_library_is_loaded_and_called(version, libraries):
    command = [pythons()[version], "-c", PROGRAM, *libraries]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["None", "1"]), done.stderr

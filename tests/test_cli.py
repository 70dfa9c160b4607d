"""The command line, as a user calls it."""

import dataclasses
import os
import re
import sys
import time

import pytest
import torch
from torch.distributed.elastic.multiprocessing.errors import record

import torchgraft
from torchgraft import cli

from . import fresh

PNG = b"\x89PNG\r\n\x1a\n"


def run(*arguments):
    code = "import sys; from torchgraft.cli import main; sys.exit(main())"
    return fresh.run("-c", code, *arguments)


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"torchgraft {torchgraft.__version__}\n"


def test_help_names_the_commands(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    assert "demo" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["demo", "--no-such-option"]])
def test_wrong_use_is_refused(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    assert "usage: torchgraft" in capsys.readouterr().err


def test_a_missing_package_is_named(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("torchgraft._demo")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(torchgraft, "_demo", raising=False)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert cli.main(["demo"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("pip install 'torchgraft[demo]'")


@pytest.mark.slow
def test_demo(tmp_path):
    folder = tmp_path / "pictures"
    done = run("demo", "--quick", "--out", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    for expected in ("torchgraft::filter2d(", "torchgraft::softplus(", "torchgraft::linear(", "all checks passed"):
        assert expected in done.stdout
    for name in ("loss.png", "filters.png"):
        assert str(folder / name) in done.stdout
        assert (folder / name).read_bytes().startswith(PNG)


@pytest.mark.slow
def test_demo_in_c(tmp_path):
    done = run("demo", "--native", "--quick", "--out", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "torchgraft::filter_bank(" in done.stdout
    assert "torchgraft::filter2d(" not in done.stdout
    assert "the filters that C applied" in done.stdout
    times = re.findall(r"(.+): +SciPy +([\d.]+) ms +C +([\d.]+) ms +([\d.]+) x", done.stdout)
    assert [what.strip() for what, *_ in times] == ["a call of the layer", "a step of the training"]
    for _, scipy, c, factor in times:
        assert float(scipy) / float(c) == pytest.approx(float(factor), rel=0.1)
    assert "all checks passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "parts"), [(2, (2, 1)), (4, (2, 2))])
def test_demo_on_processes(processes, parts):
    done = run("demo", "--processes", str(processes), "--quick")
    assert (done.returncode, done.stderr) == (0, "")
    assert "parts of a batch: {}, parts of a layer: {}".format(*parts) in done.stdout
    (row,) = re.findall(r"^ +1 +([\d.]+) +([\d.]+) +([\d.]+%) +([\d.]+%)$", done.stdout, re.M)
    assert float(row[0]) == pytest.approx(float(row[1]), rel=1e-5)
    assert row[2] == row[3]
    assert "all checks passed" in done.stdout


@record
def main_of_a_rank(*_):
    if os.environ["RANK"] == "1":
        raise ValueError("rank 1 has a bad day")
    time.sleep(60)


@pytest.mark.slow
def test_the_error_of_a_rank_is_shown_in_its_own_words(monkeypatch, capfd):
    from torchgraft._demo import processes

    monkeypatch.setattr(processes, "rank_main", main_of_a_rank)
    assert processes.run(2, quick=True) == 1
    shown = capfd.readouterr().err
    assert "rank 1 failed:\nTraceback" in shown
    assert "ValueError: rank 1 has a bad day" in shown


@pytest.mark.parametrize("processes", ["0", "1", "3", "two"])
def test_a_number_of_processes_that_cannot_be_is_refused(processes, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["demo", "--processes", processes])
    assert "--processes" in capsys.readouterr().err


def test_processes_are_asked_for(monkeypatch):
    from torchgraft._demo import processes

    asked = []
    monkeypatch.setattr(processes, "run", lambda *args, **options: asked.append((args, options)) or 0)
    assert cli.main(["demo", "--processes", "4", "--quick"]) == 0
    assert asked == [((4,), {"quick": True})]


def test_another_layer_in_c_fails_the_demo(monkeypatch, capsys):
    from torchgraft import _demo
    from torchgraft._demo import network, speed

    def shifted(**axes):
        layer = network.FilterBank(**axes)
        layer.register_forward_hook(lambda layer, images, maps: maps.roll(1, -1))
        return layer

    monkeypatch.setattr(speed, "C", dataclasses.replace(network.C, layer=shifted))
    (failure,) = _demo.compare_speed(quick=True)
    assert failure.startswith("SciPy and C differ by ")


def test_both_layers_train_to_the_same_accuracy():
    from torchgraft._demo import digits, network, training

    made = []
    for first in (network.SCIPY, network.C):
        torch.manual_seed(0)
        made.append(training.train(network.Network(first), digits.load(at_most=256), epochs=2, batch=32))
    assert made[0].accuracy == made[1].accuracy
    assert made[0].loss == pytest.approx(made[1].loss, rel=1e-5)


def test_failed_checks_fail_the_demo(tmp_path, monkeypatch, capsys):
    from torchgraft import _demo

    small = _demo.load(at_most=256)
    monkeypatch.setattr(_demo, "load", lambda: small)
    for name, value in {"STEPS": 2, "EPOCHS": 1, "TOLERANCE": -1.0, "find_backend": lambda: "eager"}.items():
        monkeypatch.setattr(_demo, name, value)
    assert _demo.run(tmp_path, quick=False) == 1
    *_, compiled, accuracy, last = capsys.readouterr().out.splitlines()
    assert compiled.startswith("FAILED: compiled and eager losses differ by")
    assert accuracy.startswith("FAILED: accuracy")
    assert accuracy.endswith("is below 95%")
    assert last.startswith("finished in")

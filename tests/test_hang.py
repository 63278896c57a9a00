import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("hang_stress.py")


@pytest.mark.parametrize("num_gradients", [100, pytest.param(20_000, marks=pytest.mark.slow)])
def test_gradients_of_several_latent_functions_come_back(num_gradients):
    """A hang would last for ever; the watchdog gives a hundred times what the work takes."""
    as_users_run = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, str(SCRIPT), str(num_gradients)]
    run = subprocess.run(command, timeout=300 + num_gradients // 10, capture_output=True, text=True, env=as_users_run)
    assert run.returncode == 0, run.stderr
    assert f"{num_gradients} gradients" in run.stdout

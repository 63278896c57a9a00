"""What importing the package settles for JAX, each in a process of its own."""

import os
import subprocess
import sys

COMPILES = """
import jax, jax.numpy as jnp, freegp
jax.jit(lambda x: jnp.linalg.svd(jnp.sort(x @ x.T))[0])(jnp.eye(5)).block_until_ready()
"""


def output_of(code, **environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=inherited | environment)
    return done.stdout.strip(), done.stderr


def test_compiled_programs_are_kept_for_the_next_process(tmp_path):
    output_of(COMPILES, XDG_CACHE_HOME=str(tmp_path), XLA_FLAGS="")
    kept = {path.name for path in tmp_path.rglob("*-cache")}
    assert kept
    _, errors = output_of(COMPILES, XDG_CACHE_HOME=str(tmp_path), XLA_FLAGS="")
    assert {path.name for path in tmp_path.rglob("*-cache")} == kept
    assert "pjrt" not in errors  # nor does XLA talk of it


def test_a_home_that_cannot_be_written_to_is_no_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    code = "import freegp, jax; print(jax.config.jax_compilation_cache_dir, jax.config.jax_enable_x64)"
    assert output_of(code, XDG_CACHE_HOME=str(tmp_path / "file"))[0] == "None True"


def test_the_programs_own_choices_stand(tmp_path):
    code = "import freegp, jax; print(jax.config.jax_compilation_cache_dir, jax.device_count())"
    own = {"JAX_COMPILATION_CACHE_DIR": "mine", "JAX_NUM_CPU_DEVICES": "3"}
    assert output_of(code, XDG_CACHE_HOME=str(tmp_path), **own)[0] == "mine 3"
    assert not (tmp_path / "freegp").exists()

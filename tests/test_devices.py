"""What importing the package settles for JAX, each in a process of its own."""

import os
import subprocess
import sys

COMPILES = """
import freegp, jax, jax.numpy as jnp
def slow_to_compile(x):
    for i in range(30):
        x = jnp.sort(jnp.sin(x @ x + i), axis=i % 2)
    return x
jax.jit(slow_to_compile)(jnp.eye(5)).block_until_ready()
"""


def output_of(code, **environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=inherited | environment)
    return done.stdout.strip(), done.stderr


def test_compiled_programs_are_kept_for_the_next_process(tmp_path):
    output_of(COMPILES, XDG_CACHE_HOME=str(tmp_path), XLA_FLAGS="")
    kept = sorted(path.name for path in tmp_path.rglob("jit_slow_to_compile*-cache"))
    assert len(kept) == 1
    _, errors = output_of(COMPILES, XDG_CACHE_HOME=str(tmp_path), XLA_FLAGS="", TF_CPP_MIN_LOG_LEVEL="1")  # as a child of JAX
    assert sorted(path.name for path in tmp_path.rglob("jit_slow_to_compile*-cache")) == kept
    assert errors == ""  # nor does XLA talk of it


def test_a_home_that_cannot_be_written_to_is_no_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    code = "import freegp, jax; print(jax.config.jax_compilation_cache_dir, jax.config.jax_enable_x64)"
    assert output_of(code, XDG_CACHE_HOME=str(tmp_path / "file"))[0] == "None True"


def test_the_programs_own_choices_stand(tmp_path):
    names = ("jax_compilation_cache_dir", "jax_num_cpu_devices", "jax_cpu_enable_async_dispatch")
    code = f"import freegp, jax; print(*(jax.config.values[name] for name in {names}), jax.device_count())"
    chosen = (str(tmp_path / "mine"), "3", "True")
    own = {name.upper(): choice for name, choice in zip(names, chosen, strict=True)}
    assert output_of(code, XDG_CACHE_HOME=str(tmp_path), **own)[0] == f"{' '.join(chosen)} 3"
    assert not (tmp_path / "freegp").exists()


def test_a_program_runs_in_the_thread_that_asks_for_it():
    """When the call returns, its result is there."""
    code = """
import freegp, jax, jax.numpy as jnp
work = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda i, x: jnp.sin(x @ x), x))
x = jnp.eye(200)
work(x).block_until_ready()
print(work(x).is_ready())
"""
    assert output_of(code)[0] == "True"


REGISTERS = """
import os, freegp
print(os.environ.get("XLA_FLAGS"))
import jax.numpy as jnp
from jax._src.lib import xla_client
options = xla_client.CompileOptions()
build = options.executable_build_options
print("xla_cpu_prefer_vector_width: 512" in str(build.debug_options))
os.environ["XLA_FLAGS"] = "--no_flag_of_that_name"
print(float(jnp.exp(0.0)))
"""


def test_what_xla_is_told_of_registers_is_read_and_taken_back():
    """XLA reads its flags once: had it not yet, it would end the process for one that it does not know."""
    assert output_of(REGISTERS, XLA_FLAGS="--xla_cpu_enable_fast_math=false")[0].split() == [
        "--xla_cpu_enable_fast_math=false",
        "True",
        "1.0",
    ]
    without = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", REGISTERS], capture_output=True, text=True, check=True, env=without)
    assert done.stdout.split() == ["None", "True", "1.0"]


MANY = """
import freegp, jax, jax.numpy as jnp
from freegp import devices
adds = jax.jit(lambda x: x + 1.0)
adds(jnp.zeros(3))
devices.make_room()
print(adds._cache_size(), end=" ")
devices.MOST_MAPS = 10
devices.make_room()
print(adds._cache_size(), adds(jnp.zeros(3)).sum())
"""


def test_programs_are_forgotten_before_memory_maps_run_out():
    assert output_of(MANY)[0] == "1 0 3.0"


SPREAD = """
import jax, jax.numpy as jnp, numpy as np, freegp as fg
from jax.sharding import Mesh, NamedSharding, PartitionSpec

rng = np.random.default_rng(0)
X, v = rng.uniform(0, 5, (1004, 2)), rng.normal(size=(9, 1))
y = rng.poisson(1.0, 1004).astype(float)
rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
for block_size, expected in ((2048, "f64[9,251]"), (100, "f64[9,23]")):
    model = fg.SparseGP(fg.kernels.RBF(1.0, [0.9, 1.4]), fg.likelihoods.Poisson(0.5), inducing=X[:9], block_size=block_size)
    model = model.prepared(X)
    density = lambda X, y, free, v: fg.log_density(model, X, y, free, v)
    both = jax.jit(jax.value_and_grad(density, argnums=(2, 3)))
    at = jnp.array([0.1, -0.2, 0.3]), jnp.asarray(v)
    alone, spread = both(jnp.asarray(X), jnp.asarray(y), *at), both(jax.device_put(X, rows), jax.device_put(y, rows), *at)
    gaps = jax.tree.map(lambda a, b: np.max(np.abs(a - b) / (1.0 + np.abs(a))), jax.device_get(alone), jax.device_get(spread))
    text = both.lower(jax.device_put(X, rows), jax.device_put(y, rows), *at).compile().as_text()
    print(max(jax.tree.leaves(gaps)) < 1e-10, "all-reduce" in text, expected in text)
"""


def test_data_spread_over_devices_change_neither_value_nor_gradient():
    """Each device has a part of the rows; what they add up to is the same, and not that times their number."""
    assert output_of(SPREAD, JAX_NUM_CPU_DEVICES="4")[0] == "\n".join(["True True True"] * 2)

"""Set before JAX starts: the suite is thousands of small programs, so compiling them fast matters more than fast code."""

import os

FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_multi_thread_eigen=false"  # two workers have a core each
os.environ["XLA_FLAGS"] = f"{FLAGS} {os.environ.get('XLA_FLAGS', '')}"

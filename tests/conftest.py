"""Set before JAX starts: the suite is thousands of small programs, so compiling them fast matters more than fast code."""

import os

os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 " + os.environ.get("XLA_FLAGS", "")

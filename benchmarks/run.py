"""The benchmarks: all of them, or one section.

    python benchmarks/run.py [--only gradient] [--quick] [--data FOLDER]

Each section keeps its result under ``results/benchmarks/``, and ``results/benchmarks.md`` is written anew from what is kept. A
quick trial goes to ``results/quick/`` instead. (`xla_hang.py` stands apart: it asks whether a version of JAX can be used at all.)
"""

import argparse
import os
import time
from pathlib import Path

import cold_start
import effective
import gradient
import growth
import memory
import page
import prediction
import records
from settings import BENCHMARKS, Settings

SECTIONS = {
    "gradient": gradient,
    "effective": effective,
    "prediction": prediction,
    "growth": growth,
    "cold_start": cold_start,
    "memory": memory,
}


def main() -> None:
    chosen, settings = arguments()
    for name in chosen:
        print(f"\n{name}: {SECTIONS[name].TITLE}", flush=True)
        load, begun = os.getloadavg()[0], time.perf_counter()
        result = SECTIONS[name].run(settings)
        records.keep(settings, name, result, time.perf_counter() - begun, load)
        print(f"\n{SECTIONS[name].text(result)}", flush=True)
    print(f"written: {page.write(settings, SECTIONS)}")


def arguments() -> tuple[list[str], Settings]:
    parser = argparse.ArgumentParser(description="Measure freegp, side by side with its peers.")
    parser.add_argument(
        "--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), help="sections to run; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and few draws, to try the suite itself")
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("FREEGP_DATA"), help="folder of data that do not ship (FREEGP_DATA)"
    )
    parser.add_argument(
        "--problems", nargs="+", choices=list(effective.LABELS), default=list(effective.LABELS), help="for effective: which ones"
    )
    given = parser.parse_args()
    results = BENCHMARKS.parent / "results"
    out = results / "quick" if given.quick else results
    return given.only, Settings(given.quick, None if given.data is None else Path(given.data), out, tuple(given.problems))


if __name__ == "__main__":
    main()

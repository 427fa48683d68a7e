"""Tests of evenkeel, by rooms."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

# Whatever the environment says: otherwise each process of the tests compiles torch again, which takes ten seconds.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Before torch is imported, for all processes: nets are tiny and tests run in parallel, so that two threads of a process
# would mostly wait for each other; where a test wants two, they must not spin, which takes seconds on a busy machine.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"

# Files of tests lie in memory where there is room for them: flushed to a disk, many tests waited half of their time.
# No test cuts the power, so what a flush is for is not tested either way.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

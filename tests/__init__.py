"""Tests of evenkeel, by rooms."""

import os
import sys

# Whatever the environment says: otherwise each process of the tests compiles torch again, which takes ten seconds.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Before torch is imported: threads that wait for each other must not spin, which takes seconds on a busy machine.
os.environ["OMP_WAIT_POLICY"] = "passive"

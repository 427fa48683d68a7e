"""Tests of evenkeel, by rooms."""

import os
import sys

# Whatever the environment says: otherwise each process of the tests compiles torch again, which takes ten seconds.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

"""Many runs: planned, launched, kept in a ledger, set beside the paper's."""

from evenkeel.grids.ledger import Ledger, run_key

__all__ = ["Ledger", "run_key"]

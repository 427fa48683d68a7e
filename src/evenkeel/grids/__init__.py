"""Many runs: planned, launched, kept in a ledger, compared with the paper's."""

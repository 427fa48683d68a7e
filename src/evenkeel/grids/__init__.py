"""Many runs: planning, launching, keeping them in a ledger, comparing them with the paper's."""

"""Results of runs, computed from their records without a model: measures, groups, significance tests, tables."""

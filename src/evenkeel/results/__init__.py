"""Numbers without a model: records of runs, measures, groups, tests of significance, tables."""

"""What a service keeps on disk: the journal, predictions, versions of the model, keys."""

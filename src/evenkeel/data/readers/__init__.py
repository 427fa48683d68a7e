"""Readers: one file a format. They find nothing and keep nothing; they turn files into labels and blocks of pixels."""

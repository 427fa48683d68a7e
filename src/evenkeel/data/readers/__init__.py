"""Readers, one module per format. They neither search for nor store data; they turn files into labels and pixels."""

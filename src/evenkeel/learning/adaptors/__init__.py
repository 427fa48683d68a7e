"""Adaptors: they correct logits while a network is trained, and are not used for prediction."""

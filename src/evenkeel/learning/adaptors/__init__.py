"""What corrects logits while a network is trained, and is dropped for prediction."""

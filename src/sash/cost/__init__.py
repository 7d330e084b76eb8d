"""What work costs: the rate-based model, choices by it, when to change one's mind, and this machine's prices."""

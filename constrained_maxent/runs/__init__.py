"""Training runs in folders: train, resume, evaluate and draw them, as the command line does."""

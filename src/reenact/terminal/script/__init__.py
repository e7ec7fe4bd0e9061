"""Scripts, and the controller that executes them."""

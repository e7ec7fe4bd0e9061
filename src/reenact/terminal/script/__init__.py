"""Scripts, and the controller that plays them."""

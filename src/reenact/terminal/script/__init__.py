"""Scripts, and who plays them."""

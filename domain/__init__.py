"""What is true: plain values, the rules about them, and nothing that touches the world."""

"""The parts of the live side that stand between the kernel and the facades."""

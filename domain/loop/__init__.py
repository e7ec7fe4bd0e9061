"""The agent loop: what a model asks for, what becomes of it, and when it ends; pure, and shared by all who run one."""

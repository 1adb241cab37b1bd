"""Rows: the data that trials train on, the same for everyone."""

"""Tensors, and what they are read from. Light to import."""

DEFAULT = "starter"  # the model of whoever chooses none

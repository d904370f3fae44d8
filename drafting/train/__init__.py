"""Training of drafts: what a small network must know of a target to guess its next tokens. Needs PyTorch.

Knows tokens and tensors; nothing of files of code, editors or packages.
"""

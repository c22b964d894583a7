"""Mixers: the part of a model that moves information between tokens. One file a family."""

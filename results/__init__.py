"""Keeps rows in Parquet, reads them back, and draws them. Knows nothing of training: it is handed rows."""


class StoreError(Exception):
    """The store cannot be used as asked; the message is one line for its user."""

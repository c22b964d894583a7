"""Keeps rows in Parquet, reads them back, and draws them. Knows nothing of training: it is handed rows."""


class StoreError(Exception):
    """The store cannot be used as asked; the message is one line for its user."""


class StoreUnreachable(StoreError):
    """The store's bucket does not answer, or refuses: nothing that its user wrote is wrong."""

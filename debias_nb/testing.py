"""A context manager for notebooks and tests: the block must fail, and the reader sees the message."""
from contextlib import contextmanager


@contextmanager
def refused(
    error: type[BaseException], # the error that must be raised
    *parts: str,                # what its message must contain
    show: bool = True,          # print the message
):
    "Require that the block raises `error` with a message that contains all `parts`. Raise `AssertionError` otherwise."
    try:
        yield
    except error as e:
        missing = [part for part in parts if part not in str(e)]
        if missing:
            raise AssertionError(f"the message lacks {missing}: {e}") from e
        if show:
            print(f"{type(e).__name__}: {e}")
    else:
        raise AssertionError(f"{error.__name__} was not raised")

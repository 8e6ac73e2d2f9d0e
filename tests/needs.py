"What tests want that not every machine has."
import os
import socket

import pytest
import torch


def lacks(need: str):
    "Skip a test for want of something. In CI it fails: nobody reads there what was skipped."
    say = pytest.fail if os.environ.get("CI") else pytest.skip
    say(need)


def cannot_meet() -> str | None:
    "Why processes cannot train together here; None if they can."
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        return "this torch has no gloo"
    try:
        with socket.socket() as connection:
            connection.bind(("127.0.0.1", 0))
    except OSError as error:
        return f"no process can listen on this machine ({error})"
    return None

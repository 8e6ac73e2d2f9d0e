"""What the command `debias-nb` calls: without the packages of the command line it says which one to install."""
import os
import signal
import sys

INTERRUPTED = 130 # exit code, as a shell has it for a program that Ctrl-C has ended


def _leave(*_):
    "Ctrl-C while packages are imported, and nothing is at stake."
    os.write(2, b"debias-nb: interrupted\n")
    os._exit(INTERRUPTED)


def main():
    "Run the command line. Exit code 2 where a package of it is missing, 130 after Ctrl-C."
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler # nohup and some shells shut it off
    if heard:
        signal.signal(signal.SIGINT, _leave)
    try:
        from .cli import app
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        app()
    except KeyboardInterrupt:
        _leave()
    except ModuleNotFoundError as e:
        package = (e.name or "").partition(".")[0]
        if package in ("", "debias_nb"):
            raise
        print(f"debias-nb: this needs the package {package}: pip install 'debias-nb[repro]'", file=sys.stderr)
        sys.exit(2)

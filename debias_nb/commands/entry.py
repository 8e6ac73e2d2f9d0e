"""What the command `debias-nb` calls: without the packages of the command line it says which one to install."""
import signal
import sys

from ..checks import leave


def main():
    "Run the command line. Exit code 2 where a package of it is missing, 130 after Ctrl-C."
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler # nohup and some shells shut it off
    if is_heard:
        signal.signal(signal.SIGINT, leave) # until `UserGroup.invoke`
    try:
        from .cli import app
        app()
    except KeyboardInterrupt:
        leave()
    except ModuleNotFoundError as e:
        package = (e.name or "").partition(".")[0]
        if package in ("", "debias_nb"):
            raise
        print(f"debias-nb: this needs the package {package}: pip install 'debias-nb[repro]'", file=sys.stderr)
        sys.exit(2)

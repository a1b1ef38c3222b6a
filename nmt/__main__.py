"""Entry point of `python -m nmt`, which is the same as the command `nmt`."""

import signal

if __name__ == "__main__":
    # Ctrl-C may stop a process of `nmt train --processes N` during its imports.
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nmt.cli.app import main

    main()

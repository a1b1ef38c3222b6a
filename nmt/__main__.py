"""`python -m nmt` is `nmt`."""

import signal

if __name__ == "__main__":
    # A process that `nmt train --processes N` starts may be stopped while it imports.
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nmt.cli.app import main

    main()

"""`python -m pubqueue` is the program `pubqueue`."""

from pubqueue.cli import main

main()

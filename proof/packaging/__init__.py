"""What is installed: the Debian package, wheels, and the pages of operations, on copies of this machine."""

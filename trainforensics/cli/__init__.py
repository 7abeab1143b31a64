"""The command line: app assembles, one file a command."""

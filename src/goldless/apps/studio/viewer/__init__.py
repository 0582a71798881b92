"""The viewer: pages over run folders that show the evidence behind any number. It never writes to the folders."""

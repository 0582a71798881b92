"""The viewer: pages over run folders that show the evidence under any number. It reads, and never writes to them."""

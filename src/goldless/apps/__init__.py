"""Apps: what is built on goldless and enters through its doors. The core imports none of them."""

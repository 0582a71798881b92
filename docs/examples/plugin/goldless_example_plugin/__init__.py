"""An example of what a package can add to goldless: copy it and keep what you need."""

"""Charts drawn as SVG, one kind a module. Colours are classes, so that themes and print can change them."""

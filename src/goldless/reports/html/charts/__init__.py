"""Charts drawn as SVG, one kind per module. Colours are CSS classes, so that themes and print can change them."""

"""The studio: the viewer, and pages that do things, in the browser of this machine."""

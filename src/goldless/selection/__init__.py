"""Selection: the best of several responses to each task, by how informative they are about each other."""

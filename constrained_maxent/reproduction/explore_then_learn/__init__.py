"""Data sets of several origins, and what is learnt from each alone: tasks that nobody had named, and the dynamics."""

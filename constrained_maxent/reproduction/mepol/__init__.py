"""Exploration in continuous spaces, on the tasks and by the yardstick of MEPOL (Mutti et al. 2021)."""

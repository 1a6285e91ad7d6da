"""The paper's study on the grid: which runs (sweep), doing them (run), and what came out (analysis)."""

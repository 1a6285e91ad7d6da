"""The paper's study of the grid: which runs (studies), doing them (run), what came out (tables, claims, figures)."""

"""The paper's studies: many runs, their tables and figures, and what they say of the paper's claims."""

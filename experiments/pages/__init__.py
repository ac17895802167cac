"""Write the pages that show results. `python -m experiments.pages` writes them all."""

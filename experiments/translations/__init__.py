"""Translations: what is held out of the parallel texts and the corpora, and a baseline that translates words by PMI."""

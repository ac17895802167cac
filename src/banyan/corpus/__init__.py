"""Text in any form, read as sentences and kept as a tokenised store.

reading    Corpus and Shard: the sentences of files, folders, globs, standard input and hub data sets
sources    one file or one hub data set, opened and identified
textfile   decompress and decode text files
sentences  decide how text is laid out; split running text into sentences
tables     JSON lines, CSV, TSV and Parquet
report     what was read, repaired and dropped
store      the tokenised corpus on disk
"""

from banyan.corpus.reading import Corpus, Shard

__all__ = ["Corpus", "Shard"]

"""Read text in many formats as sentences, and keep it tokenised on disk.

reading    Corpus and Shard: the sentences of files, folders, globs, standard input and hub data sets
sources    one file or one hub data set, opened and identified
textfile   decompress and decode text files
sentences  decide how text is laid out; split running text into sentences
tables     the text column of JSON lines, CSV, TSV and Parquet
columns    several columns of such a file, row by row
parallel   pairs of translations
rows       rows with all their columns, for a search index
keeping    write some rows of tables, with all their columns
report     what was read, repaired and dropped
store      the tokenised corpus on disk
"""

from banyan.corpus.reading import Corpus, Shard

__all__ = ["Corpus", "Shard"]

"""Split text into subword pieces.

tokenizer      Tokenizer: train, load, save, encode
rules          how our own tokenizers normalise and split text
making         train a BPE or unigram vocabulary on a corpus
unigram        the unigram model's EM and pruning
sentencepiece  read SentencePiece .model files
ours           recognise our own tokenizers in a file
tables         what the tables of the kernels hold
lookup         fill the tables, and run the kernels: native, or those in Numba
kernels        the same pieces as `tokenizers`, in Numba, about thirty times faster
checks         reject tokenizer files that the kernels cannot handle
"""

from banyan.tokenizer.tokenizer import Tokenizer

__all__ = ["Tokenizer"]

"""Indexes a corpus in small batches, slowly; to be killed. Arguments: model, corpus, index."""

import sys
import time

from banyan import Banyan
from banyan.search import index

index.BATCH_ROWS = 20
model_folder, corpus, folder = sys.argv[1:]
model = Banyan.from_pretrained(model_folder)


def encode(texts):
    time.sleep(0.02)
    return model.encode(texts)


with index.Index.writing(folder, index.Maker.of(model, model_folder)) as store:
    store.add(encode, [corpus])

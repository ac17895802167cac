"""`banyan serve`: a model behind HTTP, for clients of OpenAI and of Text Embeddings Inference.

    server.py    sockets, workers, shutdown
    app.py       one request: limits, key, handler, answer, figures, log
    openai.py    POST /v1/embeddings, GET /v1/models
    tei.py       POST /embed, /similarity, /tokenize, /decode, GET /info
    trees.py     POST /parse
    jobs.py      vectors of a request, or of many small ones together
    inputs.py    texts and tokens of a request, checked; their vectors
    refusal.py   what is said to a request that is not served
    openapi.py   the interface described; page.py shows it to people
    metrics.py   figures for Prometheus, summed over the workers
    log.py       one JSON object a line
    mapped.py    a model whose weights stay in the file
"""

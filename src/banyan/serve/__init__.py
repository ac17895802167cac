"""`banyan serve`: a model behind HTTP, for clients of OpenAI and of Text Embeddings Inference (TEI).

    routes.py      the table of routes: handler, description, summary, key
    server.py      sockets, worker processes, loading the model again, shutdown
    connection.py  one connection: limits on heads, time and unread answers
    app.py         one request: route, key, limits, handler, answer, metrics, log
    openai.py      POST /v1/embeddings, GET /v1/models
    tei.py         POST /embed, /similarity, /rerank, /tokenize, /decode, GET /info
    parse.py       POST /parse and /tree
    explain.py     POST /explain
    search.py      POST /search, if there is an index
    condition.py   the SQL condition of a search
    explore.py     GET /, the page of banyan explore, and the routes that only it asks
    explore_map.py those about its map
    predict.py     POST /predict, if there is a classifier
    cors.py        pages of other origins that may ask
    hosts.py       the names by which a page for this machine may be called
    about.py       GET /health, /ping, /metrics, /openapi.json, /docs, POST /reload
    schema.py      the JSON schemas with which handlers describe themselves
    openapi.py     the OpenAPI document; docs_page.py shows it as a page
    jobs.py        the embeddings of one request, or of many small requests in one batch
    inputs.py      checks the texts and tokens of a request and encodes them
    refusal.py     error answers, in OpenAI's form and in TEI's
    metrics.py     Prometheus metrics, summed over the workers
    log.py         JSON lines on standard error
"""

/* The Python side: types that own checked tables, and functions on buffers. Whatever the kernels use as an index is
   checked here, once, when the tables are made, or on every call (tokens and offsets). */

#include "objects.h"

#include <string.h>

/* --- Buffers --- */

bool get(PyObject *object, Py_buffer *view, Py_ssize_t itemsize, bool writable, const char *what) {
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)))
        return false;
    if (view->itemsize == itemsize)
        return true;
    PyErr_Format(PyExc_TypeError, "%s must have items of %zd bytes, not %zd", what, itemsize, view->itemsize);
    PyBuffer_Release(view);
    return false;
}

Py_ssize_t count(const Py_buffer *view) { return view->len / view->itemsize; }

/* A copy of a buffer, and its length. */
void *copy_of(PyObject *object, Py_ssize_t itemsize, int64_t *n, const char *what) {
    Py_buffer view;
    if (!get(object, &view, itemsize, false, what))
        return NULL;
    void *copy = PyMem_RawMalloc((size_t)view.len + 64); /* vector loads may read a little more */
    if (!copy) {
        PyErr_NoMemory();
    } else {
        memset((char *)copy + view.len, 0, 64);
        memcpy(copy, view.buf, (size_t)view.len);
        *n = count(&view);
    }
    PyBuffer_Release(&view);
    return copy;
}

bool refuse(bool wrong, const char *what) {
    if (wrong)
        PyErr_Format(PyExc_ValueError, "%s is out of range", what);
    return wrong;
}

bool outside(const int32_t *numbers, int64_t n, int64_t limit) {
    bool wrong = false;
    for (int64_t i = 0; i < n; i++)
        wrong |= numbers[i] < 0 || numbers[i] >= limit;
    return wrong;
}

static bool outside_longs(const int64_t *numbers, int64_t n, int64_t limit) {
    bool wrong = false;
    for (int64_t i = 0; i < n; i++)
        wrong |= numbers[i] < 0 || numbers[i] >= limit;
    return wrong;
}

static bool is_value(int32_t value, int64_t n_pieces) { return value < n_pieces && value >= -0x110000; }

PyObject *create(PyTypeObject *type) { return type->tp_alloc(type, 0); }

void dealloc_of(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* --- Pieces --- */

static void pieces_dealloc(PyObject *self) {
    Pieces *p = &((PiecesObject *)self)->pieces;
    PyMem_RawFree(p->spellings), PyMem_RawFree(p->merged), PyMem_RawFree(p->scores);
    free(p->words), free(p->hints), free(p->alone), free(p->merges);
    dealloc_of(self);
}

/* Check the spellings and hash the pieces. */
static bool take_words(Pieces *p, const int64_t *starts, const int64_t *sizes, int64_t n) {
    p->n_pieces = n;
    bool wrong = n >= 1 << 21 || p->n_spellings >= INT32_MAX;
    for (int64_t i = 0; i < p->n_spellings; i++)
        wrong |= p->spellings[i] != INT32_MIN && !is_value(p->spellings[i], n);
    for (int64_t piece = 0; piece < n && !wrong; piece++) {
        wrong = starts[piece] < 0 || sizes[piece] < 0 || sizes[piece] >= p->n_spellings - starts[piece];
        for (int64_t at = 0; !wrong && at <= sizes[piece]; at++)
            wrong = (p->spellings[starts[piece] + at] == INT32_MIN) != (at == sizes[piece]);
    }
    if (refuse(wrong, "the spelling of a piece"))
        return false;
    return add_words(p, starts, sizes) || PyErr_NoMemory();
}

static bool take_merges(Pieces *p, PyObject *of_left, PyObject *of_right, PyObject *of_merged) {
    int64_t n = 0, also = 0, made = 0;
    int64_t *left = copy_of(of_left, 8, &n, "left"), *right = left ? copy_of(of_right, 8, &also, "right") : NULL;
    p->merged = right ? copy_of(of_merged, 4, &made, "merged") : NULL;
    bool fine = p->merged != NULL;
    fine = fine && !refuse(n != also || n != made || n >= 1 << 21 || outside_longs(left, n, p->n_pieces) ||
                               outside_longs(right, n, p->n_pieces) || outside(p->merged, n, p->n_pieces),
                           "a merge");
    fine = fine && (add_merges(p, left, right, n) || PyErr_NoMemory());
    PyMem_RawFree(left), PyMem_RawFree(right);
    return fine;
}

static bool take_scores(Pieces *p, PyObject *of_scores) {
    int64_t n = 0;
    p->scores = copy_of(of_scores, 8, &n, "scores");
    if (!p->scores || refuse(n != 0 && n != p->n_pieces, "the number of scores"))
        return false;
    if (n == 0) {
        PyMem_RawFree(p->scores);
        p->scores = NULL;
    }
    return true;
}

static bool take_bytes(Pieces *p, PyObject *of_bytes) {
    int64_t n = 0;
    int32_t *bytes = copy_of(of_bytes, 4, &n, "bytes");
    bool fine = bytes && !refuse(n != 256 || outside(bytes, n, p->n_pieces), "the piece of a byte");
    if (fine)
        memcpy(p->bytes, bytes, sizeof p->bytes);
    PyMem_RawFree(bytes);
    return fine;
}

static bool take_composites(Characters *c, PyObject *of_pairs) {
    int64_t n = 0, *pairs = copy_of(of_pairs, 8, &n, "composites");
    bool fine = pairs && (add_composites(c, pairs, n) || PyErr_NoMemory());
    PyMem_RawFree(pairs);
    return fine;
}

static PyObject *pieces_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(names)) {
    PyObject *of_spellings, *of_starts, *of_sizes, *bytes, *left, *right, *merged, *scores;
    double unknown;
    long long reach;
    if (!PyArg_ParseTuple(args, "OOOOOOOOdL", &of_spellings, &of_starts, &of_sizes, &bytes, &left, &right, &merged,
                          &scores, &unknown, &reach))
        return NULL;
    PiecesObject *self = (PiecesObject *)create(type);
    if (!self)
        return NULL;
    Pieces *p = &self->pieces;
    int64_t n = 0, also = 0, *starts = copy_of(of_starts, 8, &n, "starts");
    int64_t *sizes = starts ? copy_of(of_sizes, 8, &also, "sizes") : NULL;
    p->spellings = sizes ? copy_of(of_spellings, 4, &p->n_spellings, "spellings") : NULL;
    p->unknown = unknown;
    p->reach = reach;
    bool fine = p->spellings && !refuse(n != also || n < 1 || reach < 0, "the number of pieces") &&
                take_words(p, starts, sizes, n) && take_bytes(p, bytes) && take_merges(p, left, right, merged) &&
                take_scores(p, scores) && ((p->alone = calloc((size_t)n, 1)) || PyErr_NoMemory());
    PyMem_RawFree(starts), PyMem_RawFree(sizes);
    if (fine)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* --- Characters --- */

static void characters_dealloc(PyObject *self) {
    Characters *c = &((CharactersObject *)self)->characters;
    PyMem_RawFree(c->pages), PyMem_RawFree(c->entries), PyMem_RawFree(c->expansions);
    free(c->composites);
    dealloc_of(self);
}

static bool bad_entry(int64_t entry, int64_t expansions, int64_t n_pieces) {
    int kind = entry >> 32 & 7;
    if (kind < 5)
        return !is_value((int32_t)entry, n_pieces);
    return kind > 6 || (kind == 5 && (entry & 0xFFFFFFFF) + (entry >> 35 & 31) > expansions);
}

static PyObject *characters_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(names)) {
    PyObject *pages, *entries, *expansions, *composites;
    long long n_pieces;
    if (!PyArg_ParseTuple(args, "OOOOL", &pages, &entries, &expansions, &composites, &n_pieces))
        return NULL;
    CharactersObject *self = (CharactersObject *)create(type);
    if (!self)
        return NULL;
    Characters *c = &self->characters;
    c->n_pieces = n_pieces;
    int64_t n_pages = 0, n_entries = 0, n_expansions = 0;
    c->pages = copy_of(pages, 4, &n_pages, "pages");
    c->entries = c->pages ? copy_of(entries, 8, &n_entries, "entries") : NULL;
    c->expansions = c->entries ? copy_of(expansions, 8, &n_expansions, "expansions") : NULL;
    bool wrong = n_pages != N_PAGES || n_entries < 0x80;
    for (int64_t i = 0; c->expansions && !wrong && i < n_pages; i++)
        wrong = c->pages[i] >= 0 && ((int64_t)c->pages[i] + 1) * PAGE > n_entries;
    for (int64_t i = 0; c->expansions && !wrong && i < n_entries; i++)
        wrong = bad_entry(c->entries[i], n_expansions, n_pieces);
    for (int64_t i = 0; c->expansions && !wrong && i < n_expansions; i++)
        wrong = (c->expansions[i] >> 32 & 7) > 4 || bad_entry(c->expansions[i], 0, n_pieces);
    if (c->expansions && !refuse(wrong, "a character") && take_composites(c, composites))
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* --- Ragged batches --- */

typedef struct {
    Py_buffer tokens, offsets, out;
    int64_t columns;
} Batch;

static void release(Batch *batch) {
    PyBuffer_Release(&batch->tokens), PyBuffer_Release(&batch->offsets);
    if (batch->out.obj)
        PyBuffer_Release(&batch->out);
}

/* Check sentences first..end of a batch, and that `out` has a row for each sentence. */
static bool get_batch(Batch *batch, PyObject *tokens, PyObject *offsets, PyObject *out, int64_t first, int64_t end,
                      int64_t n_tokens, Py_ssize_t itemsize) {
    memset(batch, 0, sizeof *batch);
    if (!get(tokens, &batch->tokens, 4, false, "tokens"))
        return false;
    if (!get(offsets, &batch->offsets, 8, false, "offsets")) {
        PyBuffer_Release(&batch->tokens);
        return false;
    }
    const int64_t *bounds = batch->offsets.buf;
    int64_t n = count(&batch->offsets) - 1, size = count(&batch->tokens);
    bool wrong = n < 0 || first < 0 || first > end || end > n;
    for (int64_t i = first; !wrong && i < end; i++)
        wrong = bounds[i] < 0 || bounds[i] > bounds[i + 1] || bounds[i + 1] > size;
    if (!wrong && first < end)
        wrong = outside((const int32_t *)batch->tokens.buf + bounds[first], bounds[end] - bounds[first], n_tokens);
    if (refuse(wrong, "a token or an offset") || (out && !get(out, &batch->out, itemsize, true, "out"))) {
        release(batch);
        return false;
    }
    if (out) {
        batch->columns = n ? count(&batch->out) / n : 0;
        if (refuse(batch->columns * n != count(&batch->out), "the size of the result")) {
            release(batch);
            return false;
        }
    }
    return true;
}

/* --- Trees --- */

static void trees_dealloc(PyObject *self) {
    TreesObject *object = (TreesObject *)self;
    Gates *gates = &object->trees.gates;
    PyMem_RawFree(gates->left), PyMem_RawFree(gates->right), PyMem_RawFree(gates->bias);
    PyMem_RawFree(object->trees.norms);
    if (object->embedding.obj)
        PyBuffer_Release(&object->embedding);
    dealloc_of(self);
}

/* Trees(embedding, left, right, bias, columns, width, linear, structure) */
static PyObject *trees_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(names)) {
    PyObject *embedding, *left, *right, *bias;
    long long size, width;
    int linear, structure;
    if (!PyArg_ParseTuple(args, "OOOOLLpi", &embedding, &left, &right, &bias, &size, &width, &linear, &structure))
        return NULL;
    TreesObject *self = (TreesObject *)create(type);
    if (!self || !get(embedding, &self->embedding, 4, false, "embedding")) {
        Py_XDECREF(self);
        return NULL;
    }
    Trees *trees = &self->trees;
    int64_t of_left = 0, of_right = 0, of_bias = 0;
    trees->gates.left = copy_of(left, 4, &of_left, "a gate");
    trees->gates.right = trees->gates.left ? copy_of(right, 4, &of_right, "a gate") : NULL;
    trees->gates.bias = trees->gates.right ? copy_of(bias, 4, &of_bias, "the bias") : NULL;
    int64_t expected = linear ? width * width : size;
    bool wrong = size < 1 || size >= 1 << 24 || width < 1 || width > size || size % width || of_bias != size ||
                 of_left != expected || of_right != expected || structure < 0 || structure > 3 ||
                 count(&self->embedding) % size || count(&self->embedding) / size > INT32_MAX;
    if (!trees->gates.bias || refuse(wrong, "the shape of a weight")) {
        Py_DECREF(self);
        return NULL;
    }
    trees->gates.width = width;
    trees->gates.linear = linear;
    trees->embedding = self->embedding.buf;
    trees->size = size;
    trees->n_tokens = count(&self->embedding) / size;
    trees->structure = structure;
    trees->norms = PyMem_RawMalloc((size_t)(trees->n_tokens + 1) * sizeof(float));
    if (!trees->norms) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS;
    for (int64_t i = 0; i < trees->n_tokens; i++) {
        const float *row = trees->embedding + i * size;
        trees->norms[i] = __builtin_sqrtf(vectors->dot(row, row, size));
    }
    Py_END_ALLOW_THREADS;
    return (PyObject *)self;
}

/* An array with a byte for each of n tokens, or None. False, with an exception: it is something else. */
static bool get_joined(PyObject *joined, Py_buffer *view, int64_t n) {
    *view = (Py_buffer){0};
    if (joined == Py_None)
        return true;
    if (!get(joined, view, 1, false, "joined"))
        return false;
    if (!refuse(view->len != n, "the size of joined"))
        return true;
    PyBuffer_Release(view);
    return false;
}

/* roots(tokens, offsets, out, first, end, joined or None): to the first columns of `out`; texts without tokens are left
   alone. */
static PyObject *trees_roots(PyObject *self, PyObject *args) {
    const Trees *trees = &((TreesObject *)self)->trees;
    PyObject *tokens, *offsets, *out, *of_joined;
    long long first, end;
    Batch batch;
    Py_buffer joined;
    if (!PyArg_ParseTuple(args, "OOOLLO", &tokens, &offsets, &out, &first, &end, &of_joined) ||
        !get_batch(&batch, tokens, offsets, out, first, end, trees->n_tokens, 4))
        return NULL;
    if (!get_joined(of_joined, &joined, count(&batch.tokens))) {
        release(&batch);
        return NULL;
    }
    bool room = true, wide = batch.columns >= trees->size || first == end;
    Py_BEGIN_ALLOW_THREADS;
    Space space = {0};
    const int64_t *bounds = batch.offsets.buf;
    for (int64_t i = first; wide && room && i < end; i++) {
        int64_t n = bounds[i + 1] - bounds[i];
        if (n == 0)
            continue;
        const uint8_t *own = joined.obj ? (const uint8_t *)joined.buf + bounds[i] : NULL;
        const float *root = induce(trees, (const int32_t *)batch.tokens.buf + bounds[i], own, n, &space, NULL);
        room = root != NULL;
        if (root)
            memcpy((float *)batch.out.buf + i * batch.columns, root, (size_t)trees->size * sizeof(float));
    }
    free_space(&space);
    Py_END_ALLOW_THREADS;
    release(&batch);
    if (joined.obj)
        PyBuffer_Release(&joined);
    if (refuse(!wide, "the number of columns"))
        return NULL;
    return room ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

/* induce(tokens, joined or None) -> the bytes of int32 [n - 1, 2]: the tree over one text; node n + k is the k-th
   merge. */
static PyObject *trees_induce(PyObject *self, PyObject *args) {
    const Trees *trees = &((TreesObject *)self)->trees;
    PyObject *tokens, *of_joined;
    Py_buffer view, joined;
    if (!PyArg_ParseTuple(args, "OO", &tokens, &of_joined) || !get(tokens, &view, 4, false, "tokens"))
        return NULL;
    int64_t n = count(&view);
    if (!get_joined(of_joined, &joined, n)) {
        PyBuffer_Release(&view);
        return NULL;
    }
    PyObject *children = NULL;
    if (!refuse(n > INT32_MAX / 2 || outside(view.buf, n, trees->n_tokens), "a token"))
        children = PyBytes_FromStringAndSize(NULL, n ? (n - 1) * 8 : 0);
    if (children && n) {
        bool room;
        int32_t *out = (int32_t *)PyBytes_AS_STRING(children);
        Py_BEGIN_ALLOW_THREADS;
        Space space = {0};
        room = induce(trees, view.buf, joined.buf, n, &space, out) != NULL;
        free_space(&space);
        Py_END_ALLOW_THREADS;
        if (!room) {
            Py_CLEAR(children);
            PyErr_NoMemory();
        }
    }
    PyBuffer_Release(&view);
    if (joined.obj)
        PyBuffer_Release(&joined);
    return children;
}

/* compose(children, rows): rows [n + merges, E] begin with n leaves; write the nodes above them, in this order. */
static PyObject *trees_compose(PyObject *self, PyObject *args) {
    const Trees *trees = &((TreesObject *)self)->trees;
    PyObject *of_children, *of_rows;
    Py_buffer view, rows;
    if (!PyArg_ParseTuple(args, "OO", &of_children, &of_rows) || !get(of_children, &view, 4, false, "children"))
        return NULL;
    if (!get(of_rows, &rows, 4, true, "rows")) {
        PyBuffer_Release(&view);
        return NULL;
    }
    const int32_t *children = view.buf;
    int64_t merges = count(&view) / 2, nodes = count(&rows) / trees->size, leaves = nodes - merges;
    bool wrong = leaves < 0 || nodes * trees->size != count(&rows);
    for (int64_t k = 0; !wrong && k < merges; k++)
        wrong = outside(children + 2 * k, 2, leaves + k);
    if (!wrong)
        for (int64_t k = 0; k < merges; k++) {
            float *row = rows.buf;
            const float *a = row + children[2 * k] * trees->size, *b = row + children[2 * k + 1] * trees->size;
            vectors->compose(row + (leaves + k) * trees->size, a, b, &trees->gates, trees->size);
        }
    PyBuffer_Release(&view), PyBuffer_Release(&rows);
    return refuse(wrong, "a child") ? NULL : Py_NewRef(Py_None);
}

/* --- Lexical dimensions --- */

static void lexical_dealloc(PyObject *self) {
    LexicalObject *object = (LexicalObject *)self;
    Lexical *l = &object->lexical;
    PyMem_RawFree(l->characters), PyMem_RawFree(l->values), PyMem_RawFree(l->factors), PyMem_RawFree(l->weights);
    free(l->spelt), free(l->terms);
    if (object->table.obj)
        PyBuffer_Release(&object->table);
    dealloc_of(self);
}

static bool take_sketches(LexicalObject *self, PyObject *table) {
    if (!get(table, &self->table, 1, false, "the sketches") ||
        refuse(self->table.len % self->lexical.size, "the shape of the sketches"))
        return false;
    self->lexical.table = self->table.buf;
    self->lexical.n_tokens = self->table.len / self->lexical.size;
    return true;
}

/* Pieces as the kernels read them, or NULL if they are wrong. */
static Spelt *spelt_of(const uint8_t *flags, const int64_t *start, int64_t n, int64_t n_characters) {
    Spelt *spelt = calloc((size_t)n + 1, sizeof *spelt);
    bool wrong = n_characters > UINT32_MAX / 4 || start[0] < 0;
    for (int64_t i = 0; spelt && !wrong && i < n; i++) {
        wrong = start[i] > start[i + 1] || start[i + 1] > n_characters || start[i + 1] - start[i] > UINT16_MAX;
        spelt[i] = (Spelt){(uint32_t)start[i], 0, (uint16_t)(start[i + 1] - start[i]), 0, flags[i]};
    }
    if (!spelt)
        PyErr_NoMemory();
    if (!spelt || !refuse(wrong, "the spelling of a piece"))
        return spelt;
    free(spelt);
    return NULL;
}

static bool take_spelling(Lexical *l, PyObject *spelling, long long block) {
    PyObject *of_flags, *of_start, *characters, *values, *factors, *weights, *kept;
    if (!PyArg_ParseTuple(spelling, "OOOOOOO", &of_flags, &of_start, &characters, &values, &factors, &weights, &kept))
        return false;
    int64_t starts = 0, n_characters = 0, n_values = 0, n_factors = 0, n_weights = 0;
    uint8_t *flags = copy_of(of_flags, 1, &l->n_tokens, "flags");
    int64_t *start = flags ? copy_of(of_start, 8, &starts, "start") : NULL;
    int64_t *occurrences = start ? copy_of(kept, 8, &l->n_kept, "kept") : NULL;
    bool fine = occurrences && (l->characters = copy_of(characters, 4, &n_characters, "characters")) &&
                (l->values = copy_of(values, 8, &n_values, "values")) &&
                (l->factors = copy_of(factors, 8, &n_factors, "factors")) &&
                (l->weights = copy_of(weights, 1, &n_weights, "weights"));
    bool wrong = starts != l->n_tokens + 1 || n_values != l->n_tokens || n_factors != l->n_tokens ||
                 n_weights != 1 << 18 || block < 1 || l->size % block || (block & (block - 1)) || l->n_kept > 32;
    fine = fine && !refuse(wrong, "the spelling of a piece") &&
           (l->spelt = spelt_of(flags, start, l->n_tokens, n_characters));
    if (fine)
        memcpy(l->kept, occurrences, (size_t)l->n_kept * sizeof *occurrences);
    PyMem_RawFree(flags), PyMem_RawFree(start), PyMem_RawFree(occurrences);
    l->block = block;
    return fine && (list_terms(l) || PyErr_NoMemory());
}

/* Lexical(columns, norm, table, None, 0) or Lexical(columns, norm, None, (flags, start, ...), block, root) */
static PyObject *lexical_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(names)) {
    PyObject *table, *spelling;
    long long size, block;
    double norm;
    int root = 0;
    if (!PyArg_ParseTuple(args, "LdOOL|p", &size, &norm, &table, &spelling, &block, &root))
        return NULL;
    if (refuse(size < 1 || size >= 1 << 24, "the number of columns"))
        return NULL;
    LexicalObject *self = (LexicalObject *)create(type);
    if (!self)
        return NULL;
    self->lexical.size = size;
    self->lexical.norm = norm;
    self->lexical.root = root;
    if (table != Py_None ? take_sketches(self, table) : take_spelling(&self->lexical, spelling, block))
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* put(tokens, offsets, out, first, end): to the last columns of `out`; scales those before them as well. */
static PyObject *lexical_put(PyObject *self, PyObject *args) {
    const Lexical *lexical = &((LexicalObject *)self)->lexical;
    PyObject *tokens, *offsets, *out;
    long long first, end;
    Batch batch;
    if (!PyArg_ParseTuple(args, "OOOLL", &tokens, &offsets, &out, &first, &end) ||
        !get_batch(&batch, tokens, offsets, out, first, end, lexical->n_tokens, 4))
        return NULL;
    bool room = true, wide = batch.columns >= lexical->size || first == end;
    Py_BEGIN_ALLOW_THREADS;
    Sums sums = {0};
    const int64_t *bounds = batch.offsets.buf;
    for (int64_t i = first; wide && room && i < end; i++)
        room = put_lexical(lexical, (const int32_t *)batch.tokens.buf + bounds[i], bounds[i + 1] - bounds[i], &sums,
                           (float *)batch.out.buf + i * batch.columns, batch.columns - lexical->size);
    free_sums(&sums);
    Py_END_ALLOW_THREADS;
    release(&batch);
    if (refuse(!wide, "the number of columns"))
        return NULL;
    return room ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

/* --- Types --- */

PyTypeObject *PiecesType, *CharactersType, *TreesType, *LexicalType;

static PyMethodDef trees_methods[] = {
    {"roots", trees_roots, METH_VARARGS, NULL},
    {"induce", trees_induce, METH_VARARGS, NULL},
    {"compose", trees_compose, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef lexical_methods[] = {{"put", lexical_put, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot pieces_slots[] = {{Py_tp_new, pieces_new}, {Py_tp_dealloc, pieces_dealloc}, {0, NULL}};
static PyType_Slot characters_slots[] = {{Py_tp_new, characters_new}, {Py_tp_dealloc, characters_dealloc}, {0, NULL}};
static PyType_Slot trees_slots[] = {
    {Py_tp_new, trees_new}, {Py_tp_dealloc, trees_dealloc}, {Py_tp_methods, trees_methods}, {0, NULL}};
static PyType_Slot lexical_slots[] = {
    {Py_tp_new, lexical_new}, {Py_tp_dealloc, lexical_dealloc}, {Py_tp_methods, lexical_methods}, {0, NULL}};

static PyType_Spec pieces_spec = {"banyan.native._kernels.Pieces", sizeof(PiecesObject), 0, Py_TPFLAGS_DEFAULT, pieces_slots};
static PyType_Spec characters_spec = {
    "banyan.native._kernels.Characters", sizeof(CharactersObject), 0, Py_TPFLAGS_DEFAULT, characters_slots};
static PyType_Spec trees_spec = {"banyan.native._kernels.Trees", sizeof(TreesObject), 0, Py_TPFLAGS_DEFAULT, trees_slots};
static PyType_Spec lexical_spec = {
    "banyan.native._kernels.Lexical", sizeof(LexicalObject), 0, Py_TPFLAGS_DEFAULT, lexical_slots};

static PyTypeObject *make_type(PyObject *module, PyType_Spec *spec) {
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(spec);
    return type && PyModule_AddType(module, type) == 0 ? type : NULL;
}

bool make_types(PyObject *module) {
    return (PiecesType = make_type(module, &pieces_spec)) && (CharactersType = make_type(module, &characters_spec)) &&
           (TreesType = make_type(module, &trees_spec)) && (LexicalType = make_type(module, &lexical_spec));
}

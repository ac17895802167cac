/* The module: functions on texts and buffers. They release the interpreter lock. */

#include "objects.h"

#include <string.h>

/* --- Texts --- */

/* Where the characters of strings are. `strings` must outlive the result. */
static Text *texts_of(PyObject *strings) {
    Py_ssize_t n = PyTuple_GET_SIZE(strings);
    Text *texts = PyMem_RawMalloc((size_t)(n + 1) * sizeof *texts);
    if (!texts) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *string = PyTuple_GET_ITEM(strings, i);
        if (!PyUnicode_Check(string)) {
            PyErr_Format(PyExc_TypeError, "text %zd is %s, not a string", i, Py_TYPE(string)->tp_name);
            PyMem_RawFree(texts);
            return NULL;
        }
#if PY_VERSION_HEX < 0x030C0000
        if (PyUnicode_READY(string)) {
            PyMem_RawFree(texts);
            return NULL;
        }
#endif
        texts[i] = (Text){PyUnicode_DATA(string), PyUnicode_GET_LENGTH(string), (int)PyUnicode_KIND(string)};
    }
    return texts;
}

/* split(pieces, characters, texts, missing) -> tokens, counts: the bytes of int32 [T] and int64 [n] */
static PyObject *split(PyObject *Py_UNUSED(module), PyObject *args) {
    PiecesObject *pieces;
    CharactersObject *characters;
    PyObject *given, *of_missing;
    if (!PyArg_ParseTuple(args, "O!O!OO", PiecesType, &pieces, CharactersType, &characters, &given, &of_missing))
        return NULL;
    Py_buffer missing;
    if (!get(of_missing, &missing, 1, true, "missing"))
        return NULL;
    PyObject *strings = PySequence_Tuple(given), *counts = NULL, *result = NULL;
    bool wrong = missing.len != N_PAGES || characters->characters.n_pieces > pieces->pieces.n_pieces;
    Text *texts = strings && !refuse(wrong, "missing, or a character") ? texts_of(strings) : NULL;
    Py_ssize_t n = texts ? PyTuple_GET_SIZE(strings) : 0;
    Window *window = texts ? PyMem_RawCalloc(1, sizeof *window) : NULL;
    counts = window ? PyBytes_FromStringAndSize(NULL, n * 8) : NULL;
    bool room = window != NULL;
    if (counts) {
        char *out = PyBytes_AS_STRING(counts);
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t i = 0; i < n && room; i++) {
            int64_t found = split_text(&texts[i], &pieces->pieces, &characters->characters, window, missing.buf);
            memcpy(out + 8 * i, &found, 8);
            room = found != NO_MEMORY;
        }
        Py_END_ALLOW_THREADS;
        if (room)
            result = Py_BuildValue("y#O", window->tokens ? (char *)window->tokens : "", (Py_ssize_t)(window->n_tokens * 4), counts);
    }
    if (!result && !PyErr_Occurred())
        PyErr_NoMemory();
    if (window)
        free(window->tokens);
    PyMem_RawFree(window), PyMem_RawFree(texts);
    Py_XDECREF(counts), Py_XDECREF(strings);
    PyBuffer_Release(&missing);
    return result;
}

/* kept_occurrences(tokens, offsets, kept) -> the bytes of bool [T]: the k-th occurrence of a token in a text, if k is in
   `kept` (sorted) */
static PyObject *kept_occurrences(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *of_tokens, *of_offsets, *of_kept;
    if (!PyArg_ParseTuple(args, "OOO", &of_tokens, &of_offsets, &of_kept))
        return NULL;
    int64_t size = 0, n = 0, n_kept = 0;
    int32_t *tokens = copy_of(of_tokens, 4, &size, "tokens");
    int64_t *offsets = tokens ? copy_of(of_offsets, 8, &n, "offsets") : NULL;
    int64_t *kept = offsets ? copy_of(of_kept, 8, &n_kept, "kept") : NULL;
    bool wrong = n < 1;
    for (int64_t i = 0; kept && !wrong && i < n; i++)
        wrong = offsets[i] < (i ? offsets[i - 1] : 0) || offsets[i] > size;
    PyObject *mask = kept && !refuse(wrong, "an offset") ? PyBytes_FromStringAndSize(NULL, size) : NULL;
    if (mask) {
        bool room = true;
        char *keeps = PyBytes_AS_STRING(mask);
        Repeats repeats = {0};
        memset(keeps, 0, (size_t)size);
        Py_BEGIN_ALLOW_THREADS;
        for (int64_t text = 0; text + 1 < n && room; text++) {
            room = begin_text(&repeats, offsets[text + 1] - offsets[text]);
            for (int64_t at = offsets[text]; room && at < offsets[text + 1]; at++)
                keeps[at] = is_kept(next_occurrence(&repeats, (uint32_t)tokens[at]), kept, n_kept);
        }
        free(repeats.seen);
        Py_END_ALLOW_THREADS;
        if (!room) {
            Py_CLEAR(mask);
            PyErr_NoMemory();
        }
    }
    PyMem_RawFree(tokens), PyMem_RawFree(offsets), PyMem_RawFree(kept);
    return mask;
}

/* --- From texts to embeddings --- */

typedef struct {
    const Pieces *pieces;
    const Characters *characters;
    const Trees *trees;
    const Lexical *lexical; /* or NULL */
    int64_t columns, kept[32], n_kept;
    const uint8_t *words; /* of each piece: BEGINS, SOLID, BLANK; or NULL */
    const uint8_t *marks; /* of each piece: whether it is an end mark, and no leaf; or NULL */
    float *out;
    uint8_t *left, *missing;
} Work;

enum { MOST_FETCHED = 256 }; /* rows, which fit into the cache */
enum { BEGINS = 1, SOLID = 2, BLANK = 4 }; /* of a piece, as in banyan.model.whole_words.WordPieces */

/* The tokens of a text, and those of them that are leaves. */
typedef struct {
    int32_t *tokens, *kept;
    uint8_t *joined; /* of each leaf: whether it is in one word with the leaf before; if words matter */
    int64_t n, n_leaves, capacity, room, room_joined;
} Pending;

typedef struct {
    Pending text;
    Space tree;
    float *row; /* where its embedding goes; NULL: no text */
    int64_t merges; /* left to do */
} Lane;

/* A merge waits for the one before it. So two trees grow side by side: the processor works on one while the other
   waits. */
typedef struct {
    Window window;
    Sums sums;
    Repeats repeats;
    Lane lanes[2];
    Pending next; /* its rows are being fetched */
    int64_t prepared; /* texts */
} Scratch;

static void free_pending(Pending *text) { free(text->tokens), free(text->kept), free(text->joined); }

static void free_scratch(Scratch *scratch) {
    free(scratch->window.tokens), free(scratch->repeats.seen);
    free_pending(&scratch->next);
    for (int i = 0; i < 2; i++)
        free_pending(&scratch->lanes[i].text), free_space(&scratch->lanes[i].tree);
    free_sums(&scratch->sums);
    PyMem_RawFree(scratch);
}

/* Find which tokens are in one word with the token before (banyan.model.whole_words). False: out of memory. */
static bool join(const Work *work, Pending *text) {
    if (text->room_joined < text->n) {
        uint8_t *joined = realloc(text->joined, (size_t)text->n * 2);
        if (!joined)
            return false;
        text->joined = joined;
        text->room_joined = 2 * text->n;
    }
    int64_t last = -1; /* the last solid piece since white space */
    for (int64_t at = 0; at < text->n; at++) {
        uint8_t kind = work->words[text->tokens[at]];
        uint8_t next = at + 1 < text->n ? work->words[text->tokens[at + 1]] : 0;
        if (kind & BEGINS)
            last = -1;
        text->joined[at] = 0;
        if (kind & SOLID || (kind & BLANK && next & SOLID && !(next & BEGINS))) {
            if (last >= 0)
                memset(text->joined + last + 1, 1, (size_t)(at - last));
            last = at;
        }
    }
    return true;
}

static bool takes_all(const Work *work) { return !work->n_kept && !work->marks; }

/* Find the tokens that are leaves (banyan.model.leaves). False: out of memory. */
static bool keep(const Work *work, Pending *text, Repeats *repeats) {
    if (text->room < text->n) {
        int32_t *kept = realloc(text->kept, (size_t)text->n * 2 * sizeof *kept);
        if (!kept)
            return false;
        text->kept = kept;
        text->room = 2 * text->n;
    }
    if (!begin_text(repeats, text->n))
        return false;
    bool has_words = false; /* a text of nothing but end marks keeps them */
    for (int64_t at = 0; work->marks && !has_words && at < text->n; at++)
        has_words = !work->marks[text->tokens[at]];
    text->n_leaves = 0;
    uint8_t together = 1; /* whether all tokens since the last leaf are in one word with it */
    for (int64_t at = 0; at < text->n; at++) {
        int32_t token = text->tokens[at];
        bool leaf = !work->n_kept || is_kept(next_occurrence(repeats, (uint32_t)token), work->kept, work->n_kept);
        leaf = leaf && !(has_words && work->marks[token]);
        text->kept[text->n_leaves] = text->tokens[at];
        if (work->words) {
            together &= text->joined[at];
            text->joined[text->n_leaves] = together; /* never after `at`, so what is read later is still there */
            together |= leaf;
        }
        text->n_leaves += leaf;
    }
    return true;
}

static const int32_t *leaves_of(const Work *work, const Pending *text) { return takes_all(work) ? text->tokens : text->kept; }

/* Split a text, and fetch the rows of its leaves: they arrive while the text before it is composed. */
static bool prepare(const Work *work, const Text *text, uint8_t *left, Pending *next, Scratch *scratch) {
    Window *window = &scratch->window;
    window->tokens = next->tokens, window->capacity = next->capacity, window->n_tokens = 0;
    next->n = split_text(text, work->pieces, work->characters, window, work->missing);
    next->tokens = window->tokens, next->capacity = window->capacity, next->n_leaves = next->n;
    window->tokens = NULL;
    *left = next->n == LEFT_OVER;
    if (next->n <= 0)
        return next->n != NO_MEMORY;
    if ((work->words && !join(work, next)) || (!takes_all(work) && !keep(work, next, &scratch->repeats)))
        return false;
    const int32_t *leaves = leaves_of(work, next);
    const Trees *trees = work->trees;
    if (work->lexical)
        fetch_spellings(work->lexical, next->tokens, next->n);
    for (int64_t i = 0; i < next->n_leaves && i < MOST_FETCHED; i++)
        for (int64_t column = 0; column < trees->size; column += 16)
            __builtin_prefetch(trees->embedding + leaves[i] * trees->size + column, 0, 2);
    return true;
}

/* Write the embedding of the tree that has grown. False: out of memory. */
static bool finish(const Work *work, Lane *lane, Scratch *scratch) {
    const Pending *text = &lane->text;
    float *row = lane->row;
    lane->row = NULL;
    memcpy(row, lane->tree.row[0], (size_t)work->trees->size * sizeof *row);
    if (!work->lexical)
        return true;
    bool words = !work->lexical->table; /* all occurrences: words are counted, not tokens */
    return put_lexical(work->lexical, words ? text->tokens : leaves_of(work, text), words ? text->n : text->n_leaves,
                       &scratch->sums, row, work->trees->size);
}

/* Give a lane the next text that has tokens. False: out of memory. */
static bool take_next(const Work *work, const Text *texts, int64_t n, Lane *lane, Scratch *scratch) {
    while (scratch->prepared <= n) {
        int64_t number = scratch->prepared++ - 1; /* of the text in `next` */
        Pending text = scratch->next;
        scratch->next = lane->text;
        lane->text = text;
        if (number + 1 < n && !prepare(work, &texts[number + 1], &work->left[number + 1], &scratch->next, scratch))
            return false;
        if (number < 0)
            continue;
        float *row = work->out + number * work->columns;
        if (text.n_leaves > 0) {
            lane->row = row;
            lane->merges = text.n_leaves - 1;
            if (work->lexical)
                fetch_terms(work->lexical, text.tokens, text.n);
            const uint8_t *joined = work->words ? text.joined : NULL;
            return plant(work->trees, leaves_of(work, &text), joined, text.n_leaves, &lane->tree, NULL);
        }
        memset(row, 0, (size_t)work->columns * sizeof *row);
    }
    return true;
}

static void grow(const Trees *trees, Lane *first, Lane *second) {
    int64_t both = first->merges < second->merges ? first->merges : second->merges;
    if (!first->row || !second->row) {
        Lane *only = first->row ? first : second;
        for (; only->merges > 0; only->merges--)
            merge_best(trees, &only->tree);
        return;
    }
    first->merges -= both, second->merges -= both;
    for (int64_t i = 0; i < both; i++) {
        merge_best(trees, &first->tree);
        merge_best(trees, &second->tree);
    }
}

static bool embed_all(const Work *work, const Text *texts, int64_t n) {
    Scratch *scratch = PyMem_RawCalloc(1, sizeof *scratch);
    bool room = scratch != NULL, busy = room;
    while (room && busy) {
        busy = false;
        for (int i = 0; room && i < 2; i++) {
            Lane *lane = &scratch->lanes[i];
            if (lane->row && !lane->merges)
                room = finish(work, lane, scratch);
            if (room && !lane->row)
                room = take_next(work, texts, n, lane, scratch);
            busy |= lane->row != NULL;
        }
        if (room && busy)
            grow(work->trees, &scratch->lanes[0], &scratch->lanes[1]);
    }
    if (scratch)
        free_scratch(scratch);
    return room;
}

static bool fits(const Work *work, int64_t n, Py_buffer *out, Py_buffer *left, Py_buffer *missing) {
    int64_t n_pieces = work->pieces->n_pieces, size = work->trees->size;
    if (work->lexical && (n_pieces > work->lexical->n_tokens || work->columns != size + work->lexical->size))
        return false;
    return (work->lexical || work->columns == size) && n_pieces <= work->trees->n_tokens &&
           work->characters->n_pieces <= n_pieces && left->len == n && missing->len == N_PAGES &&
           count(out) == n * work->columns;
}

static bool take_kept(Work *work, PyObject *of_kept) {
    int64_t *kept = copy_of(of_kept, 8, &work->n_kept, "kept");
    bool fine = kept && !refuse(work->n_kept > 32, "the number of kept occurrences");
    if (fine)
        memcpy(work->kept, kept, (size_t)work->n_kept * sizeof *kept);
    PyMem_RawFree(kept);
    return fine;
}

/* embed(pieces, characters, trees, lexical or None, columns, kept, words, marks, texts, out, left, missing): the
   embeddings of texts go to `out` [n, columns]. `words` [V] says what pieces can be in a word, and `marks` [V] which are
   end marks; either may be empty. `left` [n] says which texts could not be split, `missing` which pages of characters
   were missing. */
static PyObject *embed(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *pieces, *characters, *trees, *lexical, *kept, *given;
    PyObject *arrays[5];
    long long columns;
    if (!PyArg_ParseTuple(args, "O!O!O!OLOOOOOOO", PiecesType, &pieces, CharactersType, &characters, TreesType, &trees,
                          &lexical, &columns, &kept, &arrays[3], &arrays[4], &given, &arrays[0], &arrays[1], &arrays[2]))
        return NULL;
    if (lexical != Py_None && !PyObject_TypeCheck(lexical, LexicalType)) {
        PyErr_SetString(PyExc_TypeError, "lexical must be a Lexical or None");
        return NULL;
    }
    Work work = {
        .pieces = &((PiecesObject *)pieces)->pieces,
        .characters = &((CharactersObject *)characters)->characters,
        .trees = &((TreesObject *)trees)->trees,
        .lexical = lexical == Py_None ? NULL : &((LexicalObject *)lexical)->lexical,
        .columns = columns,
    };
    Py_buffer views[5] = {{0}};
    PyObject *strings = take_kept(&work, kept) ? PySequence_Tuple(given) : NULL;
    Text *texts = strings ? texts_of(strings) : NULL;
    bool fine = texts && get(arrays[0], &views[0], 4, true, "out") && get(arrays[1], &views[1], 1, true, "left") &&
                get(arrays[2], &views[2], 1, true, "missing") && get(arrays[3], &views[3], 1, false, "words") &&
                get(arrays[4], &views[4], 1, false, "marks");
    int64_t n = fine ? PyTuple_GET_SIZE(strings) : 0;
    fine = fine && !refuse(!fits(&work, n, &views[0], &views[1], &views[2]), "the shape of a weight or of the result");
    fine = fine && !refuse(views[3].len && views[3].len < work.pieces->n_pieces, "the size of words");
    fine = fine && !refuse(views[4].len && views[4].len < work.pieces->n_pieces, "the size of marks");
    if (fine) {
        work.out = views[0].buf, work.left = views[1].buf, work.missing = views[2].buf;
        work.words = views[3].len ? views[3].buf : NULL;
        work.marks = views[4].len ? views[4].buf : NULL;
        Py_BEGIN_ALLOW_THREADS;
        fine = embed_all(&work, texts, n);
        Py_END_ALLOW_THREADS;
        if (!fine)
            PyErr_NoMemory();
    }
    for (int i = 0; i < 5; i++)
        if (views[i].obj)
            PyBuffer_Release(&views[i]);
    PyMem_RawFree(texts);
    Py_XDECREF(strings);
    return fine ? Py_NewRef(Py_None) : NULL;
}

/* --- Checksums --- */

/* fold(data, crc) -> 16 bytes: zlib.crc32(data, crc) is zlib.crc32(these, 0xFFFFFFFF). The size of `data` must be a multiple
   of 64. */
static PyObject *fold(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given;
    unsigned int crc;
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "OI", &given, &crc) || !get(given, &data, 1, false, "data"))
        return NULL;
    bool wrong = refuse(data.len == 0 || data.len % 64, "the size of data");
    PyObject *folded = wrong ? NULL : PyBytes_FromStringAndSize(NULL, 16);
    if (folded) {
        Py_BEGIN_ALLOW_THREADS;
        fold_bytes(data.buf, data.len, crc, (uint8_t *)PyBytes_AS_STRING(folded));
        Py_END_ALLOW_THREADS;
    }
    PyBuffer_Release(&data);
    return folded;
}

/* --- The module --- */

/* use(instructions): compute with this instruction set; for tests, while nothing else computes. */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *name) {
    const Vectors *found[3];
    for (int i = vectors_here(found) - 1; i >= 0; i--)
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, found[i]->name) == 0) {
            vectors = found[i];
            return Py_NewRef(Py_None);
        }
    PyErr_SetString(PyExc_ValueError, "this machine does not have these instructions");
    return NULL;
}

static PyObject *instructions(void) {
    const Vectors *found[3];
    int n = vectors_here(found);
    PyObject *names = PyTuple_New(n);
    vectors = found[n - 1];
    for (int i = 0; names && i < n; i++)
        PyTuple_SET_ITEM(names, i, PyUnicode_FromString(found[i]->name));
    return names;
}

static PyMethodDef functions[] = {
    {"embed", embed, METH_VARARGS, NULL},
    {"split", split, METH_VARARGS, NULL},
    {"kept_occurrences", kept_occurrences, METH_VARARGS, NULL},
    {"use", use, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef on_some_machines[] = {{"fold", fold, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernels", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    PyObject *names = instructions();
    bool fine = !can_fold() || PyModule_AddFunctions(module, on_some_machines) == 0;
    if (fine && names && make_types(module) && PyModule_AddObjectRef(module, "INSTRUCTIONS", names) == 0) {
        Py_DECREF(names);
        return module;
    }
    Py_XDECREF(names);
    Py_DECREF(module);
    return NULL;
}

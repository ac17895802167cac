/* Lexical dimensions: banyan/backends/_numba/lexical.py and word_ngrams.py. */

#include "native.h"

#include <stdlib.h>
#include <string.h>

enum { LETTERS, DIGITS, OTHER, EMPTY };
enum { KIND = 3, BEGINS = 4 }; /* flags of a piece */
enum { BITS = 21, BUCKETS_LOG2 = 18, LONGEST_LISTED = 64 };

#define FIRST 0x110200u
#define LAST 0x110201u
#define THREE (((uint64_t)1 << 3 * BITS) - 1)
#define OF_FOUR 0x9E3779B97F4A7C15u
#define OF_NUMBER 0xD1B54A32D192ED03u
#define COLUMNS 0x8CB92BA72F3D8DD7u
#define BASE 0xD6E8FEB86659FD93u

/* --- Repeats --- */

bool begin_text(Repeats *repeats, int64_t most) {
    repeats->text++;
    if (repeats->slots >= 2 * most && repeats->slots)
        return true;
    int64_t slots = power_above(most < 128 ? 128 : most);
    Seen *seen = calloc((size_t)slots, sizeof *seen); /* texts are numbered from 1, so all slots are free */
    if (!seen)
        return false;
    free(repeats->seen);
    repeats->seen = seen;
    repeats->slots = slots;
    return true;
}

int64_t next_occurrence(Repeats *repeats, uint64_t key) {
    uint64_t mask = (uint64_t)repeats->slots - 1, slot = (key ^ key >> 32) & mask;
    while (repeats->seen[slot].text == repeats->text && repeats->seen[slot].key != key)
        slot = (slot + 1) & mask;
    Seen *seen = &repeats->seen[slot];
    if (seen->text != repeats->text)
        *seen = (Seen){key, repeats->text, 0};
    return ++seen->times;
}

bool is_kept(int64_t occurrence, const int64_t *kept, int64_t n) {
    int64_t at = 0;
    while (at < n && kept[at] < occurrence)
        at++;
    return at < n && kept[at] == occurrence;
}

/* --- N-grams --- */

/* Where n-grams go: they are added to the columns or, if `terms` is not NULL, listed. */
typedef struct {
    int32_t *sums;
    Term *terms;
    int64_t n;
} Sink;

static inline void add_weight(uint64_t hash, int32_t weight, const Lexical *lexical, Sink *sink) {
    uint64_t bits = hash * COLUMNS, column = (bits >> 33) * (uint64_t)lexical->size >> 31;
    weight = bits >> 32 & 1 ? weight : -weight;
    if (sink->terms)
        sink->terms[sink->n++] = (Term){(uint16_t)column, (int16_t)weight};
    else
        sink->sums[column] += weight;
}

static inline void add_hash(uint64_t hash, const Lexical *lexical, Sink *sink) {
    add_weight(hash, lexical->weights[hash >> (64 - BUCKETS_LOG2)], lexical, sink);
}

static inline void add_three(uint64_t window, const Lexical *lexical, Sink *sink) {
    if (window >> 2 * BITS)
        add_hash(mix(window), lexical, sink);
}

static inline void add_four(uint64_t window, uint64_t character, const Lexical *lexical, Sink *sink) {
    if (window >> 2 * BITS)
        add_hash(mix(window * OF_FOUR + character), lexical, sink);
}

/* Add the n-grams with the closing mark. */
static inline void close_run(uint64_t run, const Lexical *lexical, Sink *sink) {
    add_four(run, LAST, lexical, sink);
    add_three((run << BITS | LAST) & THREE, lexical, sink);
}

static inline __attribute__((always_inline)) void add_number(const int32_t *tokens, int64_t n, const Lexical *lexical, Sink *sink) {
    uint64_t value = 0;
    for (int64_t at = 0; at < n; at++)
        value = value * lexical->factors[tokens[at]] + lexical->values[tokens[at]];
    uint64_t hash = mix(value ^ OF_NUMBER);
    int32_t weight = lexical->weights[hash >> (64 - BUCKETS_LOG2)];
    add_weight(hash, weight + weight / 2, lexical, sink);
}

static inline __attribute__((always_inline)) void add_word(const int32_t *tokens, int64_t n, const Lexical *lexical, Sink *sink) {
    uint64_t word = FIRST, run = FIRST; /* windows of the last three characters of each */
    int kind = EMPTY;                   /* of the run */
    bool later = false;                 /* whether the run is not the first */
    int64_t size = 0;                   /* its characters so far */
    for (int64_t at = 0; at < n; at++) {
        int32_t token = tokens[at];
        int of_piece = lexical->spelt[token].flags & KIND;
        if ((of_piece != kind || kind == OTHER) && kind != EMPTY) { /* a new run */
            if (kind != OTHER)
                close_run(run, lexical, sink);
            run = FIRST;
            later = true;
            size = 0;
        }
        kind = of_piece;
        const uint32_t *characters = lexical->characters + lexical->spelt[token].start;
        for (int64_t place = 0; place < lexical->spelt[token].size; place++) {
            uint64_t character = characters[place];
            size++;
            if (kind != OTHER) {
                add_four(run, character, lexical, sink);
                run = (run << BITS | character) & THREE;
                add_three(run, lexical, sink);
            }
            if (later && size < 4)
                add_four(word, character, lexical, sink);
            word = (word << BITS | character) & THREE;
            if (later && size < 3)
                add_three(word, lexical, sink);
        }
    }
    if (kind != OTHER)
        close_run(run, lexical, sink);
    if (later && size < 3)
        add_four(word, LAST, lexical, sink);
    if (later && size < 2)
        add_three((word << BITS | LAST) & THREE, lexical, sink);
}

/* Whether the n-grams of a piece are listed. A term must hold the column. */
static inline bool is_listed(const Lexical *lexical, const Spelt *spelt) {
    bool word = spelt->flags & BEGINS && (spelt->flags & KIND) < OTHER;
    return word && spelt->size <= LONGEST_LISTED && lexical->size <= UINT16_MAX;
}

/* List the n-grams of the pieces that are words by themselves: most words of a text are. */
bool list_terms(Lexical *lexical) {
    int64_t room = 0;
    Sink sink = {NULL, NULL, 0};
    for (int64_t token = 0; token < lexical->n_tokens; token++)
        room += is_listed(lexical, &lexical->spelt[token]) ? 2 * lexical->spelt[token].size + 4 : 0;
    lexical->terms = sink.terms = malloc((size_t)(room + 1) * sizeof *lexical->terms);
    if (!lexical->terms)
        return false;
    for (int64_t token = 0; token < lexical->n_tokens; token++) {
        Spelt *spelt = &lexical->spelt[token];
        int32_t word = (int32_t)token;
        spelt->terms = (uint32_t)sink.n;
        if (is_listed(lexical, spelt) && (spelt->flags & KIND) == DIGITS)
            add_number(&word, 1, lexical, &sink);
        else if (is_listed(lexical, spelt))
            add_word(&word, 1, lexical, &sink);
        spelt->n_terms = (uint16_t)(sink.n - spelt->terms);
    }
    return true;
}

void fetch_spellings(const Lexical *lexical, const int32_t *tokens, int64_t n) {
    for (int64_t at = 0; at < n && !lexical->table; at++)
        __builtin_prefetch(&lexical->spelt[tokens[at]]);
}

void fetch_terms(const Lexical *lexical, const int32_t *tokens, int64_t n) {
    for (int64_t at = 0; at < n && !lexical->table; at++) {
        const Spelt *spelt = &lexical->spelt[tokens[at]];
        if (spelt->n_terms)
            __builtin_prefetch(&lexical->terms[spelt->terms]);
        __builtin_prefetch(&lexical->characters[spelt->start]);
    }
}

static inline void add_terms(const Lexical *lexical, const Spelt *spelt, int32_t *sums) {
    const Term *terms = lexical->terms + spelt->terms;
    for (int i = 0; i < spelt->n_terms; i++)
        sums[terms[i].column] += terms[i].weight;
}

static bool add_words_of(const Lexical *lexical, const int32_t *tokens, int64_t n, Sums *sums) {
    if (lexical->n_kept && !begin_text(&sums->words, n))
        return false;
    for (int64_t at = 0; at < n;) {
        int64_t first = at;
        int kind = lexical->spelt[tokens[at]].flags & KIND;
        uint64_t key = (uint64_t)(tokens[at] + 1) * BASE;
        for (at++; at < n && !(lexical->spelt[tokens[at]].flags & BEGINS); at++) {
            int of_piece = lexical->spelt[tokens[at]].flags & KIND;
            kind = of_piece < kind ? of_piece : kind;
            key = (key + (uint64_t)(tokens[at] + 1)) * BASE;
        }
        if (kind >= OTHER)
            continue;
        if (lexical->n_kept && !is_kept(next_occurrence(&sums->words, key), lexical->kept, lexical->n_kept))
            continue;
        const Spelt *spelt = &lexical->spelt[tokens[first]];
        Sink sink = {sums->sums, NULL, 0};
        if (at - first == 1 && spelt->n_terms)
            add_terms(lexical, spelt, sums->sums);
        else if (kind == DIGITS)
            add_number(tokens + first, at - first, lexical, &sink);
        else
            add_word(tokens + first, at - first, lexical, &sink);
    }
    return true;
}

bool put_lexical(const Lexical *lexical, const int32_t *tokens, int64_t n, Sums *sums, float *row, int64_t beside) {
    if (sums->size != lexical->size) {
        free(sums->sums);
        sums->sums = malloc((size_t)lexical->size * sizeof *sums->sums);
        sums->size = sums->sums ? lexical->size : 0;
        if (!sums->sums)
            return false;
    }
    memset(sums->sums, 0, (size_t)lexical->size * sizeof *sums->sums);
    if (lexical->table)
        for (int64_t at = 0; at < n; at++)
            vectors->add_sketch(sums->sums, lexical->table + tokens[at] * lexical->size, lexical->size);
    else if (!add_words_of(lexical, tokens, n, sums))
        return false;
    float *part = row + beside;
    vectors->rotate(part, sums->sums, lexical->size, lexical->table ? 1 : lexical->block, lexical->root);
    vectors->scale(part, lexical->size, lexical->norm);
    vectors->scale(row, beside, 1);
    return true;
}

void free_sums(Sums *sums) {
    free(sums->sums);
    free(sums->words.seen);
    *sums = (Sums){0};
}

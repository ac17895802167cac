/* Lexical dimensions: banyan/backends/_numba/lexical.py and word_ngrams.py. */

#include "native.h"

#include <stdlib.h>
#include <string.h>

enum { LETTERS, DIGITS, OTHER, EMPTY };
enum { KIND = 3, BEGINS = 4 }; /* flags of a piece */
enum { BITS = 21, BUCKETS_LOG2 = 18 };

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

static inline void add_weight(uint64_t hash, int32_t weight, int32_t *sums, int64_t size) {
    uint64_t bits = hash * COLUMNS;
    sums[(bits >> 33) * (uint64_t)size >> 31] += bits >> 32 & 1 ? weight : -weight;
}

static inline void add_hash(uint64_t hash, const Lexical *lexical, int32_t *sums) {
    add_weight(hash, lexical->weights[hash >> (64 - BUCKETS_LOG2)], sums, lexical->size);
}

static inline void add_three(uint64_t window, const Lexical *lexical, int32_t *sums) {
    if (window >> 2 * BITS)
        add_hash(mix(window), lexical, sums);
}

static inline void add_four(uint64_t window, uint64_t character, const Lexical *lexical, int32_t *sums) {
    if (window >> 2 * BITS)
        add_hash(mix(window * OF_FOUR + character), lexical, sums);
}

/* Add the n-grams with the closing mark. */
static inline void close_run(uint64_t run, const Lexical *lexical, int32_t *sums) {
    add_four(run, LAST, lexical, sums);
    add_three((run << BITS | LAST) & THREE, lexical, sums);
}

static void add_number(const int32_t *tokens, int64_t n, const Lexical *lexical, int32_t *sums) {
    uint64_t value = 0;
    for (int64_t at = 0; at < n; at++)
        value = value * lexical->factors[tokens[at]] + lexical->values[tokens[at]];
    uint64_t hash = mix(value ^ OF_NUMBER);
    int32_t weight = lexical->weights[hash >> (64 - BUCKETS_LOG2)];
    add_weight(hash, weight + weight / 2, sums, lexical->size);
}

static void add_word(const int32_t *tokens, int64_t n, const Lexical *lexical, int32_t *sums) {
    uint64_t word = FIRST, run = FIRST; /* windows of the last three characters of each */
    int kind = EMPTY;                   /* of the run */
    bool later = false;                 /* whether the run is not the first */
    int64_t size = 0;                   /* its characters so far */
    for (int64_t at = 0; at < n; at++) {
        int32_t token = tokens[at];
        int of_piece = lexical->flags[token] & KIND;
        if ((of_piece != kind || kind == OTHER) && kind != EMPTY) { /* a new run */
            if (kind != OTHER)
                close_run(run, lexical, sums);
            run = FIRST;
            later = true;
            size = 0;
        }
        kind = of_piece;
        for (int64_t place = lexical->start[token]; place < lexical->start[token + 1]; place++) {
            uint64_t character = lexical->characters[place];
            size++;
            if (kind != OTHER) {
                add_four(run, character, lexical, sums);
                run = (run << BITS | character) & THREE;
                add_three(run, lexical, sums);
            }
            if (later && size < 4)
                add_four(word, character, lexical, sums);
            word = (word << BITS | character) & THREE;
            if (later && size < 3)
                add_three(word, lexical, sums);
        }
    }
    if (kind != OTHER)
        close_run(run, lexical, sums);
    if (later && size < 3)
        add_four(word, LAST, lexical, sums);
    if (later && size < 2)
        add_three((word << BITS | LAST) & THREE, lexical, sums);
}

static bool add_words_of(const Lexical *lexical, const int32_t *tokens, int64_t n, Sums *sums) {
    if (lexical->n_kept && !begin_text(&sums->words, n))
        return false;
    for (int64_t at = 0; at < n;) {
        int64_t first = at;
        int kind = lexical->flags[tokens[at]] & KIND;
        uint64_t key = (uint64_t)(tokens[at] + 1) * BASE;
        for (at++; at < n && !(lexical->flags[tokens[at]] & BEGINS); at++) {
            int of_piece = lexical->flags[tokens[at]] & KIND;
            kind = of_piece < kind ? of_piece : kind;
            key = (key + (uint64_t)(tokens[at] + 1)) * BASE;
        }
        if (kind >= OTHER)
            continue;
        if (lexical->n_kept && !is_kept(next_occurrence(&sums->words, key), lexical->kept, lexical->n_kept))
            continue;
        if (kind == DIGITS)
            add_number(tokens + first, at - first, lexical, sums->sums);
        else
            add_word(tokens + first, at - first, lexical, sums->sums);
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
    for (int64_t column = 0; column < lexical->size; column++)
        part[column] = (float)sums->sums[column];
    if (!lexical->table)
        vectors->rotate(part, lexical->size, lexical->block);
    vectors->scale(part, lexical->size, lexical->norm);
    vectors->scale(row, beside, 1);
    return true;
}

void free_sums(Sums *sums) {
    free(sums->sums);
    free(sums->words.seen);
    *sums = (Sums){0};
}

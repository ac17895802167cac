/* What the files of the native kernels share. The algorithms are those of banyan/tokenizer/kernels.py and
   banyan/backends/_numba, where they are explained; tests compare the two. */

#ifndef BANYAN_NATIVE_H
#define BANYAN_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__GNUC__)
#error "the native kernels need gcc or clang; without them, Banyan uses Numba"
#endif

/* --- Vectors: compiled once for each instruction set (vectors.h), chosen when the module is loaded --- */

#define LANES 32 /* sums are split into this many, so that they have the same bits on every instruction set */

typedef struct {
    int64_t width;                    /* U: the size of a channel */
    bool linear;
    float *left, *right, *bias;       /* diagonal: [E] each, repeated over the channels; linear: [U, U], [U, U], [E] */
} Gates;

typedef struct {
    const char *name;
    float (*dot)(const float *a, const float *b, int64_t size);
    /* out = the parent of a and b; sums = its squared norm and its products with two neighbours */
    void (*merge)(float *out, const float *a, const float *b, const float *before, const float *after,
                  const Gates *gates, int64_t size, float sums[3]);
    int64_t (*highest)(const int64_t *numbers, int64_t n); /* the place of the first of the highest */
    void (*compose)(float *out, const float *a, const float *b, const Gates *gates, int64_t size);
    void (*add_sketch)(int32_t *sums, const int8_t *sketch, int64_t size);
    void (*rotate)(float *row, const int32_t *sums, int64_t columns, int64_t block, bool root);
    void (*scale)(float *part, int64_t size, double length);
} Vectors;

extern const Vectors *vectors;
int vectors_here(const Vectors *found[3]); /* those that this machine runs, the fastest last; returns how many */

/* --- Hashes --- */

static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline int64_t power_above(int64_t entries) { /* slots of a hash table that is at most half full */
    int64_t slots = 2;
    while (slots < 2 * entries + 2)
        slots *= 2;
    return slots;
}

/* --- Checksums --- */

bool can_fold(void); /* whether this machine has the instructions */
/* Fold n bytes, a multiple of 64 and not 0, into 16 with the same CRC-32. `crc` is that of the bytes before. */
void fold_bytes(const uint8_t *bytes, int64_t n, uint32_t crc, uint8_t out[16]);

/* --- Repeated tokens and words --- */

typedef struct {
    uint64_t key;
    int64_t text, times;
} Seen;

typedef struct {
    Seen *seen;
    int64_t slots, text; /* the number of the current text */
} Repeats;

bool begin_text(Repeats *repeats, int64_t most);                 /* false: out of memory */
int64_t next_occurrence(Repeats *repeats, uint64_t key);         /* counts from 1 within the text */
bool is_kept(int64_t occurrence, const int64_t *kept, int64_t n);

/* --- Pieces --- */

typedef struct {
    const void *data; /* of a Python string: 1, 2 or 4 bytes per code point */
    int64_t size;
    int kind;
} Text;

typedef struct {
    uint64_t key;
    uint32_t place; /* in `spellings` */
    int32_t piece;  /* -1: empty */
} Word;

typedef struct {
    int64_t n_pieces;
    int32_t *spellings; /* the characters of every piece, each terminated by END */
    int64_t n_spellings;
    Word *words;
    int64_t slots;
    uint64_t *hints; /* by hash: whether characters may be a piece, and whether a longer one may begin with them */
    uint8_t *alone;  /* see `stands_alone` */
    int32_t bytes[256];
    int64_t *merges; /* BPE: left << 42 | right << 21 | rank */
    int64_t merge_slots;
    int32_t *merged;
    double *scores; /* unigram; else NULL */
    double unknown;
    int64_t reach;
} Pieces;

typedef struct {
    int64_t n_pieces; /* of the vocabulary that they were made for */
    int32_t *pages;
    int64_t *entries;
    int64_t *expansions;
    int64_t *composites;
    int64_t composite_slots;
} Characters;

#define HINTS_LOG2 20
#define PAGE 16
#define N_PAGES (0x110000 / PAGE)
#define LONGEST 256
#define WINDOW 4096
#define ROOM (2 * WINDOW)

typedef struct {
    int32_t values[ROOM + 64];
    uint64_t keys[ROOM + 64];
    int32_t starts[ROOM + 64];
    int32_t symbols[4 * LONGEST + 8];
    int32_t ranks[4 * LONGEST + 8];
    double best[LONGEST + 1];
    int32_t piece[LONGEST + 1], origin[LONGEST + 1], ends[LONGEST + 1];
    int32_t *tokens; /* of the current text, or of several */
    int64_t n_tokens, capacity;
} Window;

enum { LEFT_OVER = -1, NO_MEMORY = -2 };

bool add_words(Pieces *pieces, const int64_t *starts, const int64_t *sizes);
bool add_merges(Pieces *pieces, const int64_t *left, const int64_t *right, int64_t n);
bool add_composites(Characters *characters, const int64_t *keys, int64_t n);
/* Append the tokens of a text to window->tokens. Return how many, LEFT_OVER or NO_MEMORY. */
int64_t split_text(const Text *text, const Pieces *pieces, const Characters *characters, Window *window,
                   uint8_t *missing);

/* --- Trees --- */

typedef struct {
    const float *embedding;
    float *norms;
    int64_t n_tokens, size; /* V, E */
    Gates gates;
    int structure;
} Trees;

typedef struct {
    int64_t capacity, size;
    float *work; /* vectors of inner nodes, and a spare one */
    const float **row;
    float *norm;
    uint64_t *key;
    int64_t *rank, *best;
    int32_t *best_at, *after, *before, *node, *slot;
    int64_t n, merges, blocks; /* tokens, pairs merged so far, blocks of ranks */
    int shift;
    int32_t used, *children;
    const uint8_t *joined; /* tokens that are in one word with the token before, or NULL */
} Space; /* a tree that grows */

/* Begin a tree over n > 0 tokens: it takes n - 1 merges. `joined`, if not NULL, says which tokens are in one word with the
   token before: pairs within words merge first. `children`, if not NULL, gets n - 1 pairs of node numbers. False: out of
   memory. */
bool plant(const Trees *trees, const int32_t *tokens, const uint8_t *joined, int64_t n, Space *space, int32_t *children);
void merge_best(const Trees *trees, Space *space);
/* Do all of it. Return the root, or NULL if there is no memory. */
const float *induce(const Trees *trees, const int32_t *tokens, const uint8_t *joined, int64_t n, Space *space,
                    int32_t *children);
void free_space(Space *space);

/* --- Lexical dimensions --- */

typedef struct {
    uint16_t column;
    int16_t weight;
} Term;

typedef struct {
    uint32_t start, terms;  /* where its characters are, and the n-grams of a piece that is a word by itself */
    uint16_t size, n_terms;
    uint8_t flags;
} Spelt; /* a piece */

typedef struct {
    int64_t n_tokens, size; /* V, D */
    double norm;
    const int8_t *table; /* sketches of pieces [V, D]; NULL for those of words: */
    Spelt *spelt;
    uint32_t *characters;
    uint64_t *values, *factors;
    uint8_t *weights;
    int64_t block, kept[32], n_kept;
    bool root; /* of the sums */
    Term *terms;
} Lexical;

typedef struct {
    int32_t *sums;
    int64_t size;
    Repeats words;
} Sums;

bool list_terms(Lexical *lexical); /* false: out of memory */
/* Fetch what put_lexical will read of tokens: first their spellings, later what these point to. */
void fetch_spellings(const Lexical *lexical, const int32_t *tokens, int64_t n);
void fetch_terms(const Lexical *lexical, const int32_t *tokens, int64_t n);
/* Write the lexical part of a text to the end of `row`, and scale both parts. False: out of memory. */
bool put_lexical(const Lexical *lexical, const int32_t *tokens, int64_t n, Sums *sums, float *row, int64_t beside);
void free_sums(Sums *sums);

#endif

/* From code points to pieces: banyan/tokenizer/kernels.py, which reads UTF-8 and otherwise works alike. */

#include "native.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPACE, LETTER, NUMBER, OTHER, MARK, MANY, ODD };
enum { FREE, ORDERED, COMPOSING };
enum { KIND = 32, COUNT = 35, JOIN = 40, WHOLE = 42, STARTER = 43, CLASS = 44, LAST_CLASS = 52 };

#define END INT32_MIN
#define NEVER INT32_MAX
#define SEED 0x243F6A8885A308D3u
#define SPREAD 0x9E3779B97F4A7C15u

static inline int64_t fold(uint64_t hash, int64_t slots) { return (int64_t)((hash ^ hash >> 32) & (uint64_t)(slots - 1)); }

static inline int64_t slot_of(int64_t key, int64_t slots) { return fold((uint64_t)key * SPREAD, slots); }

static inline uint64_t extend(uint64_t key, int32_t value) { return (key ^ (uint32_t)value) * SPREAD; }

/* What is known about characters from their hash alone, in two bits of `hints`. Both may be set without reason. */
enum { MAY_BE_A_PIECE = 1, MAY_GO_ON = 2 };

static inline uint64_t hint_at(uint64_t key) { return (key ^ key >> 32) & (((uint64_t)1 << HINTS_LOG2) - 1); }

static inline int hint_of(uint64_t key, const Pieces *pieces) {
    uint64_t at = hint_at(key);
    return pieces->hints[at >> 5] >> (at & 31) * 2 & 3;
}

static inline void hint(uint64_t key, uint64_t what, Pieces *pieces) {
    uint64_t at = hint_at(key);
    pieces->hints[at >> 5] |= what << (at & 31) * 2;
}

static int64_t *empty_table(int64_t slots) {
    int64_t *table = malloc((size_t)slots * sizeof *table);
    if (table)
        memset(table, 0xFF, (size_t)slots * sizeof *table);
    return table;
}

bool add_composites(Characters *characters, const int64_t *keys, int64_t n) {
    int64_t slots = characters->composite_slots = power_above(n);
    int64_t *table = characters->composites = empty_table(slots);
    if (!table)
        return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t slot = slot_of(keys[i], slots);
        while (table[slot] != -1)
            slot = (slot + 1) & (slots - 1);
        table[slot] = keys[i];
    }
    return true;
}

bool add_merges(Pieces *pieces, const int64_t *left, const int64_t *right, int64_t n) {
    int64_t slots = pieces->merge_slots = power_above(n);
    int64_t *table = pieces->merges = empty_table(slots);
    if (!table)
        return false;
    for (int64_t rank = 0; rank < n; rank++) {
        int64_t key = left[rank] << 21 | right[rank], slot = slot_of(key, slots);
        while (table[slot] != -1)
            slot = (slot + 1) & (slots - 1);
        table[slot] = key << 21 | rank;
    }
    return true;
}

bool add_words(Pieces *pieces, const int64_t *starts, const int64_t *sizes) {
    int64_t slots = pieces->slots = power_above(pieces->n_pieces);
    Word *words = pieces->words = malloc((size_t)slots * sizeof *words);
    pieces->hints = calloc((size_t)1 << (HINTS_LOG2 - 5), sizeof *pieces->hints);
    if (!words || !pieces->hints)
        return false;
    memset(words, 0xFF, (size_t)slots * sizeof *words);
    for (int64_t piece = 0; piece < pieces->n_pieces; piece++) {
        if (sizes[piece] == 0)
            continue;
        uint64_t key = SEED;
        for (int64_t at = 0; at < sizes[piece]; at++) {
            key = extend(key, pieces->spellings[starts[piece] + at]);
            hint(key, at + 1 < sizes[piece] ? MAY_GO_ON : MAY_BE_A_PIECE, pieces);
        }
        int64_t slot = fold(key, slots);
        while (words[slot].piece >= 0)
            slot = (slot + 1) & (slots - 1);
        words[slot] = (Word){key, (uint32_t)starts[piece], (int32_t)piece};
    }
    return true;
}

/* Return the piece that equals `values`, or -1. */
static inline int32_t find(const int32_t *values, int64_t size, uint64_t key, const Pieces *pieces) {
    const Word *words = pieces->words;
    int64_t slot = fold(key, pieces->slots);
    for (; words[slot].piece >= 0; slot = (slot + 1) & (pieces->slots - 1)) {
        if (words[slot].key != key)
            continue;
        const int32_t *spelling = pieces->spellings + words[slot].place;
        int64_t at = 0;
        while (at < size && spelling[at] == values[at]) /* END ends every spelling and is no value */
            at++;
        if (at == size && spelling[at] == END)
            return words[slot].piece;
    }
    return -1;
}

/* --- From characters to pieces --- */

static int64_t spell(const int32_t *values, int64_t size, const int32_t *bytes, int32_t *symbols) {
    int64_t count = 0;
    for (int64_t at = 0; at < size; at++) {
        int32_t code = -1 - values[at];
        if (code < 0) {
            symbols[count++] = values[at];
        } else if (code < 0x80) {
            symbols[count++] = bytes[code];
        } else {
            int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
            symbols[count++] = bytes[(0xF80 >> more & 0xFF) | code >> 6 * more];
            while (more-- > 0)
                symbols[count++] = bytes[0x80 | (code >> 6 * more & 0x3F)];
        }
    }
    return count;
}

static inline int32_t rank_of(int32_t left, int32_t right, const Pieces *pieces) {
    int64_t key = (int64_t)left << 21 | right, slots = pieces->merge_slots, slot = slot_of(key, slots);
    for (; pieces->merges[slot] != -1; slot = (slot + 1) & (slots - 1))
        if (pieces->merges[slot] >> 21 == key)
            return (int32_t)(pieces->merges[slot] & 0x1FFFFF);
    return NEVER;
}

/* BPE: merge pairs in place, lowest rank first, leftmost if equal. */
static int64_t merge(int32_t *symbols, int64_t size, int32_t *ranks, const Pieces *pieces) {
    for (int64_t at = 0; at + 1 < size; at++)
        ranks[at] = rank_of(symbols[at], symbols[at + 1], pieces);
    while (size > 1) {
        int64_t best = 0;
        for (int64_t at = 1; at < size - 1; at++)
            best = ranks[at] < ranks[best] ? at : best;
        if (ranks[best] == NEVER)
            break;
        symbols[best] = pieces->merged[ranks[best]];
        size--;
        for (int64_t at = best + 1; at < size; at++) {
            symbols[at] = symbols[at + 1];
            ranks[at - 1] = ranks[at];
        }
        if (best > 0)
            ranks[best - 1] = rank_of(symbols[best - 1], symbols[best], pieces);
        if (best < size - 1)
            ranks[best] = rank_of(symbols[best], symbols[best + 1], pieces);
    }
    return size;
}

/* Unigram: the most probable pieces, the first found if equal. */
static int64_t split(const int32_t *values, int64_t size, const Pieces *pieces, Window *window) {
    double *best = window->best;
    int32_t *piece = window->piece, *origin = window->origin, *ends = window->ends;
    best[0] = 0;
    for (int64_t end = 1; end <= size; end++) {
        best[end] = -INFINITY;
        piece[end] = -1;
        origin[end] = (int32_t)(end - 1);
    }
    for (int64_t at = 0; at < size; at++) {
        uint64_t key = SEED;
        bool known = false;
        int64_t stop = at + pieces->reach < size ? at + pieces->reach : size;
        for (int64_t end = at + 1; end <= stop; end++) {
            key = extend(key, values[end - 1]);
            int hints = hint_of(key, pieces);
            int32_t found = hints & MAY_BE_A_PIECE ? find(values + at, end - at, key, pieces) : -1;
            if (found >= 0) {
                known |= end == at + 1;
                double score = best[at] + pieces->scores[found];
                if (score > best[end]) {
                    best[end] = score;
                    piece[end] = found;
                    origin[end] = (int32_t)at;
                }
            }
            if (!(hints & MAY_GO_ON))
                break;
        }
        if (!known && best[at] + pieces->unknown > best[at + 1]) {
            best[at + 1] = best[at] + pieces->unknown;
            piece[at + 1] = -1;
            origin[at + 1] = (int32_t)at;
        }
    }
    int64_t steps = 0, count = 0;
    for (int32_t end = (int32_t)size; end > 0; end = origin[end])
        ends[steps++] = end;
    while (steps-- > 0) {
        int32_t end = ends[steps];
        if (piece[end] >= 0)
            window->symbols[count++] = piece[end];
        else
            count += spell(values + origin[end], end - origin[end], pieces->bytes, window->symbols + count);
    }
    return count;
}

static int64_t pieces_of(const int32_t *values, int64_t size, const Pieces *pieces, Window *window) {
    if (pieces->scores)
        return split(values, size, pieces, window);
    int64_t count = spell(values, size, pieces->bytes, window->symbols);
    return merge(window->symbols, count, window->ranks, pieces);
}

/* Whether a piece is what its own characters are encoded as. Found out when first asked, in any thread. */
static bool stands_alone(int32_t piece, const int32_t *values, int64_t size, const Pieces *pieces, Window *window) {
    enum { UNKNOWN, YES, NO };
    uint8_t known = __atomic_load_n(&pieces->alone[piece], __ATOMIC_RELAXED);
    if (known == UNKNOWN) {
        bool alone = size <= LONGEST && pieces_of(values, size, pieces, window) == 1 && window->symbols[0] == piece;
        known = alone ? YES : NO;
        __atomic_store_n(&pieces->alone[piece], known, __ATOMIC_RELAXED);
    }
    return known == YES;
}

/* --- From code points to characters, and to chunks of them --- */

static inline int32_t code_at(const Text *text, int64_t at) {
    uint32_t code = text->kind == 1   ? ((const uint8_t *)text->data)[at]
                    : text->kind == 2 ? ((const uint16_t *)text->data)[at]
                                      : ((const uint32_t *)text->data)[at];
    return (code & 0xFFFFF800u) == 0xD800 || code > 0x10FFFF ? 0xFFFD : (int32_t)code; /* lone surrogates */
}

static bool may_change(int64_t here, int32_t code, int64_t before, int32_t previous,
                       const Characters *characters) {
    int ccc = here >> CLASS & 0xFF, starter = before >> STARTER & 1, whole = before >> WHOLE & 1;
    bool disorder = ccc != 0 && (before >> LAST_CLASS & 0xFF) > ccc;
    if ((here >> JOIN & 3) == ORDERED)
        return disorder && !(starter && whole);
    if (!starter)
        return ccc != 0 && (before >> CLASS & 0xFF) != ccc;
    if (disorder || !whole)
        return true;
    int64_t key = (int64_t)previous << 32 | code, slots = characters->composite_slots, slot = slot_of(key, slots);
    for (; characters->composites[slot] != -1; slot = (slot + 1) & (slots - 1))
        if (characters->composites[slot] == key)
            return true;
    return false;
}

/* Whether a character of this kind begins a chunk, given the state: bit state << 3 | kind. */
static const uint64_t BEGINS = /* white space always; else another kind, but no mark, and nothing after ▁ */
    0x01ull << 8 * SPACE | 0x0Dull << 8 * LETTER | 0x0Bull << 8 * NUMBER | 0x07ull << 8 * OTHER;

typedef struct {
    int64_t size, chunks;
    int state;
    int32_t last;
    uint64_t key;
} Reading;

static inline void take(int64_t here, Window *window, Reading *reading) {
    int kind = here >> KIND & 7, state = reading->state;
    int32_t value = (int32_t)here;
    bool begins = (BEGINS >> (state << 3 | kind) & 1) | (kind == OTHER && state == OTHER && value != reading->last);
    bool kept = (kind | state) != SPACE;
    uint64_t key = extend(begins ? SEED : reading->key, value);
    window->values[reading->size] = value;
    window->keys[reading->size] = key;
    window->starts[reading->chunks] = (int32_t)reading->size;
    reading->size += kept;
    reading->chunks += begins & kept;
    reading->state = kind == MARK ? (state > LETTER ? state : LETTER) : kind;
    reading->last = value;
    reading->key = key;
}

typedef struct {
    int64_t at;
    int32_t code;
    int64_t before;
    int64_t part; /* of what `code` becomes, if the window before ended inside */
} Place;

/* Take what a code point becomes, from a part on. If the window is full and a word ends inside, return what is next;
   otherwise 0. */
static inline int64_t take_many(int64_t here, int64_t part, const Characters *characters, Window *window, Reading *reading) {
    for (int64_t count = here >> COUNT & 31; part < count; part++) {
        if (reading->size >= WINDOW && reading->state == SPACE)
            return part;
        take(characters->expansions[(here & 0xFFFFFFFF) + part], window, reading);
    }
    return 0;
}

/* Normalise and cut until the end, or until there are WINDOW characters and a word ends. */
static inline __attribute__((always_inline)) bool read_kind(const Text *text, Place *place,
                                                            const Characters *characters, Window *window,
                                                            uint8_t *missing, int64_t *chunks) {
    Reading reading = {0, 0, OTHER, 0, SEED};
    const int64_t *entries = characters->entries;
    int64_t at = place->at, before = place->before;
    int32_t code = place->code;
    bool fine = true;
    take(entries[0x20], window, &reading);
    int64_t part = place->part ? take_many(before, place->part, characters, window, &reading) : 0;
    while (at < text->size && (reading.size < WINDOW || reading.state != SPACE)) {
        if (reading.size > ROOM - 32) { /* no code point becomes 32 characters */
            reading.size = reading.chunks = 0;
            fine = false;
        }
        int32_t previous = code;
        code = code_at(text, at++);
        int64_t here;
        if (code < 0x80) {
            here = entries[code];
        } else {
            int32_t page = characters->pages[code / PAGE];
            if (page < 0) {
                __atomic_store_n(&missing[code / PAGE], 1, __ATOMIC_RELAXED);
                fine = false;
                continue;
            }
            here = entries[(int64_t)page * PAGE + code % PAGE];
            if ((here >> JOIN & 3) && may_change(here, code, before, previous, characters))
                fine = false;
        }
        before = here;
        int kind = here >> KIND & 7;
        if (kind < MANY) {
            take(here, window, &reading);
        } else {
            fine &= kind == MANY;
            part = kind == MANY ? take_many(here, 0, characters, window, &reading) : 0;
        }
    }
    if (reading.state == SPACE) {
        reading.size--;
        reading.chunks--;
    }
    window->starts[reading.chunks] = (int32_t)reading.size;
    *place = (Place){at, code, before, part};
    *chunks = reading.chunks;
    return fine;
}

static bool read_window(const Text *text, Place *place, const Characters *characters, Window *window,
                        uint8_t *missing, int64_t *chunks) {
    Text same = *text; /* with a constant kind, the compiler makes one loop for each */
    if (same.kind == 1) {
        same.kind = 1;
        return read_kind(&same, place, characters, window, missing, chunks);
    }
    if (same.kind == 2) {
        same.kind = 2;
        return read_kind(&same, place, characters, window, missing, chunks);
    }
    same.kind = 4;
    return read_kind(&same, place, characters, window, missing, chunks);
}

static bool make_room(Window *window, int64_t more) {
    if (window->n_tokens + more <= window->capacity)
        return true;
    int64_t capacity = 2 * (window->n_tokens + more);
    int32_t *tokens = realloc(window->tokens, (size_t)capacity * sizeof *tokens);
    if (!tokens)
        return false;
    window->tokens = tokens;
    window->capacity = capacity;
    return true;
}

/* Fetch what `find` will read for each chunk: first the slots, then the spellings they point to. */
static void fetch_words(const Pieces *pieces, const Window *window, int64_t chunks) {
    for (int64_t chunk = 0; chunk < chunks; chunk++)
        __builtin_prefetch(&pieces->words[fold(window->keys[window->starts[chunk + 1] - 1], pieces->slots)]);
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const Word *word = &pieces->words[fold(window->keys[window->starts[chunk + 1] - 1], pieces->slots)];
        if (word->piece >= 0)
            __builtin_prefetch(&pieces->spellings[word->place]);
    }
}

int64_t split_text(const Text *text, const Pieces *pieces, const Characters *characters, Window *window,
                   uint8_t *missing) {
    Place place = {0, 0x20, characters->entries[0x20], 0};
    int64_t first = window->n_tokens;
    bool fine = true;
    while (place.at < text->size || place.part) {
        int64_t chunks;
        fine &= read_window(text, &place, characters, window, missing, &chunks);
        if (fine)
            fetch_words(pieces, window, chunks);
        for (int64_t chunk = 0; fine && chunk < chunks; chunk++) {
            int64_t start = window->starts[chunk], size = window->starts[chunk + 1] - start;
            const int32_t *values = window->values + start;
            if (!make_room(window, 4 * LONGEST))
                return NO_MEMORY;
            int32_t piece = find(values, size, window->keys[start + size - 1], pieces);
            if (piece >= 0 && stands_alone(piece, values, size, pieces, window)) {
                window->tokens[window->n_tokens++] = piece;
            } else if (size > LONGEST) {
                fine = false;
            } else {
                int64_t count = pieces_of(values, size, pieces, window);
                memcpy(window->tokens + window->n_tokens, window->symbols, (size_t)count * sizeof *window->tokens);
                window->n_tokens += count;
            }
        }
    }
    if (fine)
        return window->n_tokens - first;
    window->n_tokens = first;
    return LEFT_OVER;
}

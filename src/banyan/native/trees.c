/* From tokens to a tree: banyan/backends/_numba/trees.py. A leaf is read where it lies in the embedding; only inner
   nodes have vectors of their own. */

#include "native.h"

#include <math.h>
#include <stdlib.h>

#define GOLDEN 0x9E3779B97F4A7C15u
#define GONE INT64_MIN

enum { INDUCED, RANDOM, BALANCED }; /* the last one is right-branching */

static bool reserve(Space *space, int64_t n, int64_t size) {
    if (n <= space->capacity && size == space->size)
        return true;
    free_space(space);
    int64_t room = n < 64 ? 64 : n < 4096 ? n + n / 2 : n;
    size_t stride = (size_t)(size + 15) / 16 * 16;
    if (posix_memalign((void **)&space->work, 64, ((size_t)room / 2 + 2) * stride * sizeof(float)))
        space->work = NULL;
    space->row = malloc((size_t)room * sizeof *space->row);
    space->norm = malloc((size_t)room * sizeof *space->norm);
    space->key = malloc((size_t)room * sizeof *space->key);
    space->rank = malloc((size_t)room * sizeof *space->rank);
    space->best = malloc((size_t)room * sizeof *space->best);
    int32_t **numbers[] = {&space->best_at, &space->after, &space->before, &space->node, &space->slot};
    bool whole = space->work && space->row && space->norm && space->key && space->rank && space->best;
    for (int i = 0; i < 5; i++)
        whole &= (*numbers[i] = malloc((size_t)room * sizeof **numbers[i])) != NULL;
    space->size = size;
    space->capacity = room;
    if (!whole)
        free_space(space);
    return whole;
}

void free_space(Space *space) {
    free(space->work), free(space->row), free(space->norm), free(space->key), free(space->rank), free(space->best);
    free(space->best_at), free(space->after), free(space->before), free(space->node), free(space->slot);
    *space = (Space){0};
}

static inline double cosine(float dot, float norm_a, float norm_b, bool same) {
    if (same)
        return 1;
    double both = (double)norm_a * (double)norm_b;
    if (both == 0)
        return 0;
    double found = (double)dot / both;
    if (!(found >= -2)) /* NaN after an overflow: ranks last, but is still a pair */
        return -2;
    return found < 1 ? found : 1;
}

static inline uint64_t node_key(uint64_t left, uint64_t right) { return mix(left * GOLDEN + right); }

/* The score of neighbours a and b that span tokens first..last, as an integer with the same order. */
static inline int64_t rank_of(int structure, const Space *space, float dot, int64_t a, int64_t b, int64_t last) {
    if (structure == INDUCED)
        return (int64_t)(cosine(dot, space->norm[a], space->norm[b], space->key[a] == space->key[b]) * 0x1p61);
    if (structure == RANDOM)
        return (int64_t)(node_key(space->key[a], space->key[b]) >> 33);
    return structure == BALANCED ? a - last : a;
}

static inline void best_of_block(Space *space, int64_t block, int shift, int64_t n) {
    int64_t start = block << shift, end = (block + 1) << shift;
    int64_t at = start + vectors->highest(space->rank + start, (end < n ? end : n) - start);
    space->best[block] = space->rank[at];
    space->best_at[block] = (int32_t)at;
}

static inline int64_t best_pair(const Space *space, int64_t blocks) {
    return space->best_at[blocks > 1 ? vectors->highest(space->best, blocks) : 0];
}

static void begin(const Trees *trees, const int32_t *tokens, int64_t n, Space *space) {
    for (int64_t i = 0; i < n; i++) {
        space->row[i] = trees->embedding + (int64_t)tokens[i] * trees->size;
        space->norm[i] = trees->norms[tokens[i]];
        space->key[i] = mix((uint64_t)tokens[i] + GOLDEN);
        space->node[i] = (int32_t)i;
        space->after[i] = (int32_t)(i + 1);
        space->before[i] = (int32_t)(i - 1);
        space->slot[i] = -1;
    }
    for (int64_t i = 0; i + 1 < n; i++) {
        float dot = trees->structure == INDUCED ? vectors->dot(space->row[i], space->row[i + 1], trees->size) : 0;
        space->rank[i] = rank_of(trees->structure, space, dot, i, i + 1, i + 2);
    }
    space->rank[n - 1] = GONE;
}

/* Where the parent of i and j goes: the place of a child that has one, or a new one. So n tokens need n / 2 places. */
static inline float *place_of_parent(Space *space, int64_t i, int64_t j, int32_t *used, size_t stride) {
    if (space->slot[i] < 0)
        space->slot[i] = space->slot[j] >= 0 ? space->slot[j] : (*used)++;
    return space->work + (size_t)space->slot[i] * stride;
}

const float *induce(const Trees *trees, const int32_t *tokens, int64_t n, Space *given, int32_t *children) {
    if (!reserve(given, n, trees->size))
        return NULL;
    Space here = *given, *space = &here; /* so that the compiler knows that no store changes these pointers */
    int shift = 6;
    while (n >> (2 * shift) > 0)
        shift++;
    int64_t blocks = ((n - 1) >> shift) + 1;
    int32_t used = 0;
    size_t stride = (size_t)(trees->size + 15) / 16 * 16;
    float *spare = space->work + ((size_t)space->capacity / 2 + 1) * stride;
    begin(trees, tokens, n, space);
    for (int64_t block = 0; block < blocks; block++)
        best_of_block(space, block, shift, n);
    for (int64_t k = 0; k < n - 1; k++) {
        int64_t i = best_pair(space, blocks), j = space->after[i], r = space->after[j], m = space->before[i];
        if (children) {
            children[2 * k] = space->node[i];
            children[2 * k + 1] = space->node[j];
            space->node[i] = (int32_t)(n + k);
        }
        space->key[i] = node_key(space->key[i], space->key[j]);
        const float *a = space->row[i], *b = space->row[j];
        if (trees->gates.linear)
            vectors->compose(spare, a, b, &trees->gates, trees->size);
        float *parent = place_of_parent(space, i, j, &used, stride), sums[3];
        if (trees->gates.linear)
            for (int64_t column = 0; column < trees->size; column++)
                parent[column] = spare[column];
        vectors->merge(parent, a, b, space->row[m >= 0 ? m : j], space->row[r < n ? r : j], &trees->gates, trees->size, sums);
        space->row[i] = parent;
        space->norm[i] = sqrtf(sums[0]);
        space->after[i] = (int32_t)r;
        space->rank[i] = space->rank[j] = GONE;
        int64_t of_m = m >> shift, of_i = i >> shift, of_j = j >> shift;
        if (r < n) {
            space->before[r] = (int32_t)i;
            space->rank[i] = rank_of(trees->structure, space, sums[2], i, r, space->after[r]);
        }
        if (m >= 0) {
            space->rank[m] = rank_of(trees->structure, space, sums[1], m, i, r);
            if (of_m != of_i)
                best_of_block(space, of_m, shift, n);
        }
        best_of_block(space, of_i, shift, n);
        if (of_j != of_i)
            best_of_block(space, of_j, shift, n);
    }
    return space->row[0];
}

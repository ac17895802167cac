/* From tokens to a tree: banyan/backends/_numba/trees.py. A leaf is read where it lies in the embedding; only inner
   nodes have vectors of their own. */

#include "native.h"

#include <math.h>
#include <stdlib.h>

#define GOLDEN 0x9E3779B97F4A7C15u
#define GONE INT64_MIN
#define ONE ((int64_t)1 << 61) /* the rank of a cosine of 1 */
#define INSIDE (3 * ONE - 1)   /* added to the ranks of pairs within a word, which rank above all others */

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

static inline int64_t score_of(int structure, const Space *space, float dot, int64_t a, int64_t b, int64_t last) {
    if (structure == INDUCED)
        return (int64_t)(cosine(dot, space->norm[a], space->norm[b], space->key[a] == space->key[b]) * 0x1p61);
    if (structure == RANDOM)
        return (int64_t)(node_key(space->key[a], space->key[b]) >> 33);
    return structure == BALANCED ? a - last : a;
}

/* The score of neighbours a and b that span tokens a..last, as an integer with the same order. */
static inline int64_t rank_of(int structure, const Space *space, float dot, int64_t a, int64_t b, int64_t last) {
    int64_t rank = score_of(structure, space, dot, a, b, last);
    if (space->joined && space->joined[b])
        rank = (rank > -ONE ? rank : -ONE) + INSIDE;
    return rank;
}

static inline void best_of_block(Space *space, int64_t block) {
    int64_t start = block << space->shift, end = (block + 1) << space->shift;
    int64_t at = start + vectors->highest(space->rank + start, (end < space->n ? end : space->n) - start);
    space->best[block] = space->rank[at];
    space->best_at[block] = (int32_t)at;
}

static inline int64_t best_pair(const Space *space) {
    return space->best_at[space->blocks > 1 ? vectors->highest(space->best, space->blocks) : 0];
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
static inline float *place_of_parent(Space *space, int64_t i, int64_t j, size_t stride) {
    int32_t first = space->slot[i], second = space->slot[j], either = first >= 0 ? first : second; /* -1: none */
    int32_t slot = either >= 0 ? either : space->used;
    space->used += either < 0;
    space->slot[i] = slot;
    return space->work + (size_t)slot * stride;
}

bool plant(const Trees *trees, const int32_t *tokens, const uint8_t *joined, int64_t n, Space *space, int32_t *children) {
    if (!reserve(space, n, trees->size))
        return false;
    space->n = n;
    space->merges = 0;
    space->used = 0;
    space->shift = 6;
    space->children = children;
    space->joined = joined;
    while (n >> (2 * space->shift) > 0)
        space->shift++;
    space->blocks = ((n - 1) >> space->shift) + 1;
    begin(trees, tokens, n, space);
    for (int64_t block = 0; block < space->blocks; block++)
        best_of_block(space, block);
    return true;
}

void merge_best(const Trees *trees, Space *space) {
    int64_t n = space->n, k = space->merges++, i = best_pair(space), j = space->after[i], r = space->after[j];
    int64_t m = space->before[i];
    size_t stride = (size_t)(trees->size + 15) / 16 * 16;
    if (space->children) {
        space->children[2 * k] = space->node[i];
        space->children[2 * k + 1] = space->node[j];
        space->node[i] = (int32_t)(n + k);
    }
    space->key[i] = node_key(space->key[i], space->key[j]);
    const float *a = space->row[i], *b = space->row[j];
    float *spare = space->work + ((size_t)space->capacity / 2 + 1) * stride, sums[3];
    if (trees->gates.linear)
        vectors->compose(spare, a, b, &trees->gates, trees->size);
    float *parent = place_of_parent(space, i, j, stride);
    if (trees->gates.linear)
        for (int64_t column = 0; column < trees->size; column++)
            parent[column] = spare[column];
    vectors->merge(parent, a, b, space->row[m >= 0 ? m : j], space->row[r < n ? r : j], &trees->gates, trees->size, sums);
    space->row[i] = parent;
    space->norm[i] = sqrtf(sums[0]);
    space->after[i] = (int32_t)r;
    space->rank[i] = space->rank[j] = GONE;
    int64_t of_m = m >> space->shift, of_i = i >> space->shift, of_j = j >> space->shift;
    if (r < n) {
        space->before[r] = (int32_t)i;
        space->rank[i] = rank_of(trees->structure, space, sums[2], i, r, space->after[r]);
    }
    if (m >= 0) {
        space->rank[m] = rank_of(trees->structure, space, sums[1], m, i, r);
        if (of_m != of_i)
            best_of_block(space, of_m);
    }
    best_of_block(space, of_i);
    if (of_j != of_i)
        best_of_block(space, of_j);
}

const float *induce(const Trees *trees, const int32_t *tokens, const uint8_t *joined, int64_t n, Space *space,
                    int32_t *children) {
    if (!plant(trees, tokens, joined, n, space, children))
        return NULL;
    while (space->merges < n - 1)
        merge_best(trees, space);
    return space->row[0];
}

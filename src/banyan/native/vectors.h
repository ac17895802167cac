/* The loops over columns. vectors.c includes this file once for each instruction set, with

     NAME(f)   the name of f for the instruction set
     TARGET    the attribute that selects it
     W         floats in a register

   A sum is split into LANES sums, and these are added in a fixed order: the bits do not depend on W. */

typedef float NAME(V) __attribute__((vector_size(4 * W), aligned(4), may_alias));

#define V NAME(V)
#define R (LANES / W)
#define AT(p) (*(const V *)(p))
#define EACH _Pragma("GCC unroll 16") for (int r = 0; r < R; r++)

/* The sum of the lanes: halves are added until one is left. */
static inline TARGET float NAME(fold)(const V *sums, const float *a, const float *b, int64_t size) {
    float lanes[LANES] __attribute__((aligned(64)));
    EACH *(V *)(lanes + r * W) = sums[r];
    for (int64_t tail = size % LANES, i = 0; i < tail; i++)
        lanes[i] += a[size - tail + i] * b[size - tail + i];
    typedef float Half __attribute__((vector_size(64)));
    typedef float Quarter __attribute__((vector_size(32)));
    typedef float Eighth __attribute__((vector_size(16)));
    Half half = *(Half *)lanes + *(Half *)(lanes + 16);
    *(Half *)lanes = half;
    Quarter quarter = *(Quarter *)lanes + *(Quarter *)(lanes + 8);
    *(Quarter *)lanes = quarter;
    Eighth eighth = *(Eighth *)lanes + *(Eighth *)(lanes + 4);
    return (eighth[0] + eighth[2]) + (eighth[1] + eighth[3]);
}

static TARGET float NAME(dot)(const float *a, const float *b, int64_t size) {
    V sums[R];
    EACH sums[r] = (V){0};
    for (int64_t j = 0; j + LANES <= size; j += LANES)
        EACH sums[r] += AT(a + j + r * W) * AT(b + j + r * W);
    return NAME(fold)(sums, a, b, size);
}

/* The place of the first of the highest of up to 64 numbers. Where there are instructions for it, no loop ends at that
   place: the processor could not foresee its end. */
static inline TARGET int64_t NAME(highest_of_64)(const int64_t *numbers, int64_t n, int64_t *most) {
#if W == 16
    __m512i none = _mm512_set1_epi64(INT64_MIN), highest = none;
    for (int64_t i = 0; i < n; i += 8)
        highest = _mm512_max_epi64(highest, _mm512_mask_loadu_epi64(none, UP_TO_8(n - i), numbers + i));
    *most = _mm512_reduce_max_epi64(highest);
    highest = _mm512_set1_epi64(*most);
    uint64_t found = 0;
    for (int64_t i = 0; i < n; i += 8) {
        __m512i here = _mm512_maskz_loadu_epi64(UP_TO_8(n - i), numbers + i);
        found |= (uint64_t)_mm512_mask_cmpeq_epi64_mask(UP_TO_8(n - i), highest, here) << i;
    }
    return __builtin_ctzll(found);
#else
    int64_t at = n;
    *most = numbers[0];
    for (int64_t i = 1; i < n; i++)
        *most = numbers[i] > *most ? numbers[i] : *most;
#if W == 8
    uint64_t found = 0;
    __m256i highest = _mm256_set1_epi64x(*most);
    for (at = 0; at + 4 <= n; at += 4) {
        __m256i same = _mm256_cmpeq_epi64(highest, _mm256_loadu_si256((const __m256i *)(numbers + at)));
        found |= (uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(same)) << at;
    }
    for (; at < n; at++)
        found |= (uint64_t)(numbers[at] == *most) << at;
    return __builtin_ctzll(found);
#else
    for (at = 0; numbers[at] != *most;)
        at++;
    return at;
#endif
#endif
}

static TARGET int64_t NAME(highest)(const int64_t *numbers, int64_t n) {
    int64_t most, at = NAME(highest_of_64)(numbers, n < 64 ? n : 64, &most);
    for (int64_t start = 64; start < n; start += 64) {
        int64_t here, place = NAME(highest_of_64)(numbers + start, n - start < 64 ? n - start : 64, &here);
        if (here > most) {
            most = here;
            at = start + place;
        }
    }
    return at;
}

/* Equation 3 and the sums of the next comparisons, in one sweep. `out` may be `a` or `b`. If the gates repeat within a
   register, they stay there. */
static inline __attribute__((always_inline)) TARGET void NAME(sweep)(
    float *out, const float *a, const float *b, const float *before, const float *after, const Gates *gates,
    int64_t size, float sums[3], bool constant, bool composed) {
    const float *left = gates->left, *right = gates->right, *bias = gates->bias;
    V square[R], with_before[R], with_after[R], l, r_, c;
    EACH square[r] = with_before[r] = with_after[r] = (V){0};
    l = r_ = c = (V){0};
    if (constant)
        l = AT(left), r_ = AT(right), c = AT(bias);
    int64_t j = 0;
    for (; j + LANES <= size; j += LANES)
        EACH {
            int64_t at = j + r * W;
            V parent;
            if (composed)
                parent = AT(a + at);
            else if (constant)
                parent = AT(a + at) * l + AT(b + at) * r_ + c;
            else
                parent = AT(a + at) * AT(left + at) + AT(b + at) * AT(right + at) + AT(bias + at);
            *(V *)(out + at) = parent;
            square[r] += parent * parent;
            with_before[r] += AT(before + at) * parent;
            with_after[r] += AT(after + at) * parent;
        }
    for (; j < size; j++)
        out[j] = composed ? a[j] : a[j] * left[j] + b[j] * right[j] + bias[j];
    sums[0] = NAME(fold)(square, out, out, size);
    sums[1] = NAME(fold)(with_before, before, out, size);
    sums[2] = NAME(fold)(with_after, after, out, size);
}

static TARGET void NAME(multiply)(float *out, const float *row, const float *matrix, int64_t size, int64_t U) {
    for (int64_t u = 0; u < U; u++)
        for (int64_t start = 0; start < size; start += U)
            for (int64_t v = 0; v < U; v++)
                out[start + v] += row[start + u] * matrix[u * U + v];
}

/* Equation 1 or 3. With linear gates, `out` must be neither `a` nor `b`. */
static TARGET void NAME(compose)(float *out, const float *a, const float *b, const Gates *gates, int64_t size) {
    if (!gates->linear) {
        for (int64_t j = 0; j < size; j++)
            out[j] = a[j] * gates->left[j] + b[j] * gates->right[j] + gates->bias[j];
        return;
    }
    for (int64_t j = 0; j < size; j++)
        out[j] = gates->bias[j];
    NAME(multiply)(out, a, gates->left, size, gates->width);
    NAME(multiply)(out, b, gates->right, size, gates->width);
}

static TARGET void NAME(merge)(float *out, const float *a, const float *b, const float *before, const float *after,
                               const Gates *gates, int64_t size, float sums[3]) {
    if (gates->linear) /* `out` is composed already */
        NAME(sweep)(out, out, out, before, after, gates, size, sums, false, true);
    else if (W % gates->width == 0 && size >= W)
        NAME(sweep)(out, a, b, before, after, gates, size, sums, true, false);
    else
        NAME(sweep)(out, a, b, before, after, gates, size, sums, false, false);
}

/* --- Lexical dimensions --- */

static TARGET void NAME(add_sketch)(int32_t *sums, const int8_t *sketch, int64_t size) {
    for (int64_t i = 0; i < size; i++)
        sums[i] += sketch[i];
}

static inline __attribute__((always_inline)) TARGET void NAME(butterflies)(float *row, int64_t columns, int64_t size) {
    for (int64_t start = 0; start < columns; start += 2 * size) {
        float *first = row + start, *second = row + start + size;
        _Pragma("GCC ivdep") for (int64_t i = 0; i < size; i++) {
            float a = first[i], b = second[i];
            first[i] = a + b;
            second[i] = a - b;
        }
    }
}

/* row = sums or their roots, and the Walsh-Hadamard transform of each block of columns. The short steps of 768 columns
are unrolled. */
static TARGET void NAME(rotate)(float *row, const int32_t *sums, int64_t columns, int64_t block, bool root) {
    int64_t size = columns / block;
    for (int64_t column = 0; column < columns; column++)
        row[column] = (float)sums[column];
    for (int64_t column = 0; root && column < columns; column++)
        row[column] = __builtin_copysignf(__builtin_sqrtf(__builtin_fabsf(row[column])), row[column]);
    if (size == 3 && block >= 8) {
        for (int64_t start = 0; start < columns; start += 24) {
            NAME(butterflies)(row + start, 24, 3);
            NAME(butterflies)(row + start, 24, 6);
            NAME(butterflies)(row + start, 24, 12);
        }
        size = 24;
    }
    for (; size < columns; size *= 2)
        NAME(butterflies)(row, columns, size);
}

/* Scale a part of a row to a length. The squares are added in double precision, in sixteen sums. */
static TARGET void NAME(scale)(float *part, int64_t size, double length) {
    enum { D = 16 };
    typedef double Wide __attribute__((vector_size(8 * W)));
    Wide sums[D / W];
    _Pragma("GCC unroll 16") for (int r = 0; r < D / W; r++) sums[r] = (Wide){0};
    int64_t j = 0;
    for (; j + D <= size; j += D)
        _Pragma("GCC unroll 16") for (int r = 0; r < D / W; r++) {
            Wide wide = __builtin_convertvector(AT(part + j + r * W), Wide);
            sums[r] += wide * wide;
        }
    double lanes[D], square = 0;
    memcpy(lanes, sums, sizeof lanes);
    for (int64_t i = 0; j + i < size; i++)
        lanes[i] += (double)part[j + i] * part[j + i];
    for (int i = 0; i < D; i++)
        square += lanes[i];
    float factor = square > 1e-60 ? (float)(length / __builtin_sqrt(square)) : 0;
    for (j = 0; j < size; j++)
        part[j] *= factor;
}

static const Vectors NAME(all) = {
    NAME(label), NAME(dot), NAME(merge), NAME(highest), NAME(compose), NAME(add_sketch), NAME(rotate), NAME(scale),
};

#undef V
#undef R
#undef AT
#undef EACH
#undef NAME
#undef TARGET
#undef W

/* The loops over columns for each instruction set, and which of them this machine runs. */

#include "native.h"

#include <string.h>

static const char label_plain[] = "baseline";
#define NAME(f) f##_plain
#define TARGET
#define W 4
#include "vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define UP_TO_8(n) ((n) >= 8 ? 0xFF : (1 << (n)) - 1) /* a mask */
static const char label_avx2[] = "AVX2";
#define NAME(f) f##_avx2
#define TARGET __attribute__((target("avx2")))
#define W 8
#include "vectors.h"

static const char label_avx512[] = "AVX-512";
#define NAME(f) f##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#define W 16
#include "vectors.h"
#endif

const Vectors *vectors = &all_plain;

int vectors_here(const Vectors *found[3]) {
    int n = 0;
    found[n++] = &all_plain;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        found[n++] = &all_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        found[n++] = &all_avx512;
#endif
    return n;
}

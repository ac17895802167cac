/* CRC-32, as zlib computes it, with products of polynomials (PCLMULQDQ) instead of tables. */

#include "native.h"

#if defined(__x86_64__)
#include <immintrin.h>

bool can_fold(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("pclmul");
}

/* a times x^k mod P, plus b; `powers` holds x^(k + 32) and x^(k - 32), bits reversed: one for each half of a */
__attribute__((target("pclmul"))) static inline __m128i moved(__m128i a, __m128i powers, __m128i b) {
    __m128i low = _mm_clmulepi64_si128(a, powers, 0x00), high = _mm_clmulepi64_si128(a, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), b);
}

__attribute__((target("pclmul"))) void fold_bytes(const uint8_t *bytes, int64_t n, uint32_t crc, uint8_t out[16]) {
    const __m128i by_64 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4), by_16 = _mm_set_epi64x(0xCCAA009E, 0x1751997D0);
    const __m128i *data = (const __m128i *)bytes;
    __m128i sums[4]; /* side by side, because a product takes several cycles */
    for (int i = 0; i < 4; i++)
        sums[i] = _mm_loadu_si128(data + i);
    sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128((int)~crc));
    for (int64_t at = 4; at < n / 16; at += 4)
        for (int i = 0; i < 4; i++)
            sums[i] = moved(sums[i], by_64, _mm_loadu_si128(data + at + i));
    for (int i = 1; i < 4; i++)
        sums[0] = moved(sums[0], by_16, sums[i]);
    _mm_storeu_si128((__m128i *)out, sums[0]);
}

#else

bool can_fold(void) { return false; }
void fold_bytes(const uint8_t *bytes, int64_t n, uint32_t crc, uint8_t out[16]) { (void)bytes, (void)n, (void)crc, (void)out; }

#endif

"""The compiler options of the kernels.

Sums may be reassociated for SIMD; the compiled code then fixes their order. No option assumes that there is no NaN or
infinity.
"""

from __future__ import annotations

from banyan.support.compiling import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
inlined = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
summing = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
step = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}, forceinline=True)

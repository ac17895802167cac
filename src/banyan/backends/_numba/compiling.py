"""How kernels are compiled.

Sums may be reassociated for SIMD, so their order is fixed by the compiled code; nothing assumes NaN or infinity away.
"""

from __future__ import annotations

from banyan.support.compiling import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")
summing = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
step = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}, forceinline=True)

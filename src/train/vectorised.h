#pragma once

// Before a function of plain loops: compiled for several processors, the best one chosen when the
// program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DURE_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DURE_VECTORISED
#endif

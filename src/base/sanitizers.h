#pragma once

// Which sanitizer this is compiled with, whichever compiler: DURE_ADDRESS_SANITIZER and
// DURE_THREAD_SANITIZER are 0 or 1.

#ifdef __has_feature
#define DURE_HAS_FEATURE(name) __has_feature(name)
#else
#define DURE_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || DURE_HAS_FEATURE(address_sanitizer)
#define DURE_ADDRESS_SANITIZER 1
#else
#define DURE_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || DURE_HAS_FEATURE(thread_sanitizer)
#define DURE_THREAD_SANITIZER 1
#else
#define DURE_THREAD_SANITIZER 0
#endif

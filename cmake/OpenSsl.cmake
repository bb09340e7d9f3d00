# OpenSSL: the shared libraries, or the archives for a program whose property DURE_STATIC is on.
find_package(OpenSSL REQUIRED)
find_library(SSL_ARCHIVE NAMES libssl.a REQUIRED)
find_library(CRYPTO_ARCHIVE NAMES libcrypto.a REQUIRED)
# What the archive itself refers to: nothing in Debian 12, zlib and zstd in Debian 13.
find_library(ZLIB_ARCHIVE NAMES libz.a REQUIRED)
find_library(ZSTD_ARCHIVE NAMES libzstd.a)
set(crypto_archives ${CRYPTO_ARCHIVE} ${ZLIB_ARCHIVE})
if(ZSTD_ARCHIVE)
  list(APPEND crypto_archives ${ZSTD_ARCHIVE})
endif()
add_library(dure_openssl INTERFACE)
target_link_libraries(
  dure_openssl INTERFACE
  "$<IF:$<BOOL:$<TARGET_PROPERTY:DURE_STATIC>>,${SSL_ARCHIVE},OpenSSL::SSL>"
  "$<IF:$<BOOL:$<TARGET_PROPERTY:DURE_STATIC>>,${crypto_archives},OpenSSL::Crypto>")

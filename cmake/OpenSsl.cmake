# OpenSSL: the shared libraries, or the archives for a program whose property DURE_STATIC is on.
find_package(OpenSSL REQUIRED)
find_library(SSL_ARCHIVE NAMES libssl.a REQUIRED)
find_library(CRYPTO_ARCHIVE NAMES libcrypto.a REQUIRED)
# What libcrypto.a itself refers to: nothing in Debian 12, zlib and zstd in Debian 13.
find_library(ZLIB_ARCHIVE NAMES libz.a REQUIRED)
find_library(ZSTD_ARCHIVE NAMES libzstd.a REQUIRED)

# Targets, so that the linker gets each archive before those that it refers to.
add_library(dure_crypto_archive STATIC IMPORTED)
set_target_properties(dure_crypto_archive PROPERTIES
  IMPORTED_LOCATION ${CRYPTO_ARCHIVE} INTERFACE_LINK_LIBRARIES "${ZLIB_ARCHIVE};${ZSTD_ARCHIVE}")
add_library(dure_ssl_archive STATIC IMPORTED)
set_target_properties(dure_ssl_archive PROPERTIES
  IMPORTED_LOCATION ${SSL_ARCHIVE} INTERFACE_LINK_LIBRARIES dure_crypto_archive)

add_library(dure_openssl INTERFACE)
target_link_libraries(
  dure_openssl INTERFACE
  "$<IF:$<BOOL:$<TARGET_PROPERTY:DURE_STATIC>>,dure_ssl_archive,OpenSSL::SSL>"
  "$<IF:$<BOOL:$<TARGET_PROPERTY:DURE_STATIC>>,dure_crypto_archive,OpenSSL::Crypto>")

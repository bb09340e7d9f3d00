# OpenSSL: the shared libraries, or the archives for a program whose property DURE_STATIC is on.
find_package(OpenSSL REQUIRED)
find_library(SSL_ARCHIVE NAMES libssl.a REQUIRED)
find_library(CRYPTO_ARCHIVE NAMES libcrypto.a REQUIRED)
add_library(dure_openssl INTERFACE)
target_link_libraries(
  dure_openssl INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:DURE_STATIC>>,${SSL_ARCHIVE},OpenSSL::SSL>
                         $<IF:$<BOOL:$<TARGET_PROPERTY:DURE_STATIC>>,${CRYPTO_ARCHIVE},OpenSSL::Crypto>)

# All from Debian. The server and signatures apart, a binary needs none of them where it runs.
find_package(Threads REQUIRED)

add_library(reprofuse_deps INTERFACE)
target_link_libraries(reprofuse_deps INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

# The headers carry no architecture, so a cross build takes the host's: through a folder that links to just them, since
# the host's other headers must stay out of its search path.
if(CMAKE_CROSSCOMPILING)
  set(REPROFUSE_HEADERS ${PROJECT_BINARY_DIR}/headers)
  file(MAKE_DIRECTORY ${REPROFUSE_HEADERS})
  foreach(package hwy fmt nlohmann CLI)
    file(CREATE_LINK /usr/include/${package} ${REPROFUSE_HEADERS}/${package} SYMBOLIC)
  endforeach()
  target_include_directories(reprofuse_deps SYSTEM INTERFACE ${REPROFUSE_HEADERS})
endif()

include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${REPROFUSE_HEADERS})
foreach(header hwy/base.h fmt/format.h nlohmann/json.hpp CLI/CLI.hpp)
  string(MAKE_C_IDENTIFIER "REPROFUSE_HAVE_${header}" found)
  # Not CheckIncludeFileCXX: compiling all of a large header takes seconds.
  check_cxx_source_compiles("#if !__has_include(<${header}>)\n#error missing\n#endif\nint main() {}" ${found})
  if(NOT ${found})
    unset(${found} CACHE)
    message(FATAL_ERROR "${header} was not found. On Debian: "
                        "apt install libhwy-dev libfmt-dev nlohmann-json3-dev libcli11-dev (./quickstart does it)")
  endif()
endforeach()
unset(CMAKE_REQUIRED_INCLUDES)

# PCRE2 and utf8proc serve the tokenizer. Linked statically, so that a binary needs nothing where it runs. A cross build
# has no copies for its machine and goes without text: it takes and gives token ids.
set(REPROFUSE_HAVE_TEXT OFF)
if(NOT CMAKE_CROSSCOMPILING)
  find_path(REPROFUSE_PCRE2_INCLUDE pcre2.h)
  find_library(REPROFUSE_PCRE2 NAMES libpcre2-8.a)
  find_path(REPROFUSE_UTF8PROC_INCLUDE utf8proc.h)
  find_library(REPROFUSE_UTF8PROC NAMES libutf8proc.a)
  if(NOT REPROFUSE_PCRE2_INCLUDE OR NOT REPROFUSE_PCRE2 OR NOT REPROFUSE_UTF8PROC_INCLUDE OR NOT REPROFUSE_UTF8PROC)
    message(FATAL_ERROR "PCRE2 or utf8proc was not found. On Debian: "
                        "apt install libpcre2-dev libutf8proc-dev (./quickstart does it)")
  endif()
  set(REPROFUSE_HAVE_TEXT ON)
  add_library(reprofuse_text_deps INTERFACE)
  target_include_directories(reprofuse_text_deps SYSTEM INTERFACE ${REPROFUSE_PCRE2_INCLUDE} ${REPROFUSE_UTF8PROC_INCLUDE})
  target_compile_definitions(reprofuse_text_deps INTERFACE PCRE2_CODE_UNIT_WIDTH=8 PCRE2_STATIC UTF8PROC_STATIC)
  target_link_libraries(reprofuse_text_deps INTERFACE ${REPROFUSE_PCRE2} ${REPROFUSE_UTF8PROC})
endif()

# Receipts are signed by OpenSSL's Ed25519. Debian updates the shared library; a binary that travels takes it along. A cross
# build has no copy for its machine and goes without signatures.
set(REPROFUSE_HAVE_SIGNATURES OFF)
if(NOT CMAKE_CROSSCOMPILING)
  find_path(REPROFUSE_OPENSSL_INCLUDE openssl/evp.h)
  if(REPROFUSE_STATIC_RUNTIME)
    find_library(REPROFUSE_CRYPTO_STATIC NAMES libcrypto.a)
    set(crypto ${REPROFUSE_CRYPTO_STATIC})
  else()
    find_library(REPROFUSE_CRYPTO crypto)
    set(crypto ${REPROFUSE_CRYPTO})
  endif()
  if(NOT REPROFUSE_OPENSSL_INCLUDE OR NOT crypto)
    message(FATAL_ERROR "OpenSSL was not found. On Debian: apt install libssl-dev (./quickstart does it)")
  endif()
  set(REPROFUSE_HAVE_SIGNATURES ON)
  add_library(reprofuse_signature_deps INTERFACE)
  target_include_directories(reprofuse_signature_deps SYSTEM INTERFACE ${REPROFUSE_OPENSSL_INCLUDE})
  target_link_libraries(reprofuse_signature_deps INTERFACE ${crypto} Threads::Threads ${CMAKE_DL_LIBS})
endif()

# The server alone needs these: Boost's headers, and prometheus-cpp as a shared library, so a binary that travels has no
# server. Its tests ask by cpp-httplib, whose header must be compiled with the definitions that its library was compiled with:
# its classes have other sizes without them.
option(REPROFUSE_SERVER "Build `reprofuse serve`, for which Boost.Beast and prometheus-cpp are needed" ON)
set(REPROFUSE_HAVE_SERVER OFF)
if(REPROFUSE_SERVER AND REPROFUSE_HAVE_TEXT AND NOT REPROFUSE_STATIC_RUNTIME)
  find_path(REPROFUSE_BOOST_INCLUDE boost/beast/version.hpp)
  find_path(REPROFUSE_PROMETHEUS_INCLUDE prometheus/text_serializer.h)
  find_library(REPROFUSE_PROMETHEUS prometheus-cpp-core)
  if(NOT REPROFUSE_BOOST_INCLUDE OR NOT REPROFUSE_PROMETHEUS_INCLUDE OR NOT REPROFUSE_PROMETHEUS)
    message(FATAL_ERROR "Boost.Beast or prometheus-cpp was not found. On Debian: "
                        "apt install libboost-dev prometheus-cpp-dev (./quickstart does it), "
                        "or build without `reprofuse serve`: -DREPROFUSE_SERVER=OFF")
  endif()
  set(REPROFUSE_HAVE_SERVER ON)
  add_library(reprofuse_http_deps INTERFACE)
  target_include_directories(reprofuse_http_deps SYSTEM INTERFACE ${REPROFUSE_BOOST_INCLUDE} ${REPROFUSE_PROMETHEUS_INCLUDE})
  target_link_libraries(reprofuse_http_deps INTERFACE ${REPROFUSE_PROMETHEUS})
  if(REPROFUSE_SANITIZE MATCHES thread)
    # ThreadSanitizer knows no fences. Asio has locks besides, and those it follows.
    target_compile_definitions(reprofuse_http_deps INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()
if(REPROFUSE_HAVE_SERVER AND REPROFUSE_TESTS)
  find_path(REPROFUSE_HTTPLIB_INCLUDE httplib.h REQUIRED)
  find_library(REPROFUSE_HTTPLIB cpp-httplib REQUIRED)
  add_library(reprofuse_http_client INTERFACE)
  target_include_directories(reprofuse_http_client SYSTEM INTERFACE ${REPROFUSE_HTTPLIB_INCLUDE})
  target_compile_definitions(reprofuse_http_client INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT
                                                             CPPHTTPLIB_BROTLI_SUPPORT)
  target_link_libraries(reprofuse_http_client INTERFACE ${REPROFUSE_HTTPLIB})
endif()

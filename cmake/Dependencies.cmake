# All from Debian, and all but the thread library header-only.
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

include(CheckIncludeFileCXX)
set(CMAKE_REQUIRED_INCLUDES ${REPROFUSE_HEADERS})
foreach(header hwy/base.h fmt/format.h nlohmann/json.hpp CLI/CLI.hpp)
  string(MAKE_C_IDENTIFIER "REPROFUSE_HAVE_${header}" found)
  check_include_file_cxx(${header} ${found})
  if(NOT ${found})
    unset(${found} CACHE)
    message(FATAL_ERROR "${header} was not found. On Debian: "
                        "apt install libhwy-dev libfmt-dev nlohmann-json3-dev libcli11-dev (./quickstart does it)")
  endif()
endforeach()
unset(CMAKE_REQUIRED_INCLUDES)

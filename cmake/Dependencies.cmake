# All from Debian. The header-only ones carry no architecture, so cross builds may point REPROFUSE_HEADERS at a folder
# that holds just them.
find_package(Threads REQUIRED)
set(REPROFUSE_HEADERS "" CACHE PATH "Folder with the headers of hwy, fmt, nlohmann and CLI, for cross builds")

add_library(reprofuse_deps INTERFACE)
target_compile_definitions(reprofuse_deps INTERFACE FMT_HEADER_ONLY=1)
target_link_libraries(reprofuse_deps INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
if(REPROFUSE_HEADERS)
  target_include_directories(reprofuse_deps SYSTEM INTERFACE ${REPROFUSE_HEADERS})
endif()

include(CheckIncludeFileCXX)
set(CMAKE_REQUIRED_INCLUDES ${REPROFUSE_HEADERS})
set(CMAKE_REQUIRED_DEFINITIONS -DFMT_HEADER_ONLY=1)
foreach(header hwy/base.h fmt/format.h nlohmann/json.hpp CLI/CLI.hpp)
  string(MAKE_C_IDENTIFIER "REPROFUSE_HAVE_${header}" found)
  check_include_file_cxx(${header} ${found})
  if(NOT ${found})
    message(FATAL_ERROR "${header} was not found. On Debian: apt install libhwy-dev libfmt-dev nlohmann-json3-dev libcli11-dev (./quickstart does it)")
  endif()
endforeach()

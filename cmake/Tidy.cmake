# For clang-tidy, which nothing is built for: the libraries above the core and the tool as one target. A unity build of it
# has one file, so that what they all include is read once.
add_library(reprofuse_above_core OBJECT EXCLUDE_FROM_ALL)
foreach(target reprofuse_text reprofuse_engine reprofuse_receipt reprofuse_openai reprofuse_server reprofuse_engine_study reprofuse_shared reprofuse)
  if(NOT TARGET ${target})
    continue()
  endif()
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    if(EXISTS ${source})  # what a build would make is nobody's code
      target_sources(reprofuse_above_core PRIVATE ${source})
    endif()
  endforeach()
  target_include_directories(reprofuse_above_core PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  target_compile_definitions(reprofuse_above_core PRIVATE $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
  set_target_properties(${target} PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
endforeach()

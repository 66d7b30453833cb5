# Files that a binary carries: reprofuse_embed_assets(TARGET HEADER FUNCTION FILES...) adds a source that defines FUNCTION, such
# as `server::web_asset`, which HEADER declares. It is made when the target is built, and again when a file changes.
# The same file is the script that makes it: cmake -DFILES=... -DHEADER=... -DFUNCTION=... -DOUTPUT=... -P EmbedAssets.cmake

set(REPROFUSE_EMBED_ASSETS ${CMAKE_CURRENT_LIST_FILE})

function(reprofuse_embed_assets target header function)
  string(REPLACE "::" "/" name ${function})
  set(output ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  # A file by itself in a unity build too, so that those who read the others without building them do not miss it.
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${ARGN}" -DHEADER=${header} -DFUNCTION=${function} -DOUTPUT=${output} -P
            ${REPROFUSE_EMBED_ASSETS}
    DEPENDS ${ARGN} ${REPROFUSE_EMBED_ASSETS}
    COMMENT "Embedding the files of ${function}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

function(content_type_of name type)
  set(types .html text/html .css text/css .js text/javascript .svg image/svg+xml)
  cmake_path(GET name EXTENSION LAST_ONLY extension)
  list(FIND types "${extension}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${name}: no content type is known for '${extension}'")
  endif()
  math(EXPR at "${at} + 1")
  list(GET types ${at} found)
  set(${type} "${found}; charset=utf-8" PARENT_SCOPE)
endfunction()

# A C++ initializer for a file's bytes. No string, of which C++ promises no more than 65535; and in parts, since the time of a
# replacement grows with the square of the text.
function(bytes_of path initializer)
  file(SIZE ${path} size)
  set(all "")
  set(offset 0)
  while(offset LESS size)
    file(READ ${path} bytes OFFSET ${offset} LIMIT 1024 HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND all "${bytes}\n    ")
    math(EXPR offset "${offset} + 1024")
  endwhile()
  set(${initializer} "${all}" PARENT_SCOPE)
endfunction()

function(write_assets)
  set(constants "")
  set(lookups "")
  set(index 0)
  foreach(path IN LISTS FILES)
    cmake_path(GET path FILENAME name)
    content_type_of(${name} type)
    bytes_of(${path} bytes)
    set(condition "path == \"/${name}\"")
    if(name STREQUAL index.html)
      string(PREPEND condition "path == \"/\" || ")
    endif()
    string(APPEND constants "constexpr char kFile${index}[] = {  // ${name}\n    ${bytes}};\n")
    string(APPEND lookups "  if (${condition}) return Asset{{kFile${index}, sizeof kFile${index}}, \"${type}\"};\n")
    math(EXPR index "${index} + 1")
  endforeach()
  file(WRITE ${OUTPUT} "// Made by cmake/EmbedAssets.cmake.\n#include \"${HEADER}\"\n\nnamespace reprofuse {\nnamespace {\n\n"
                       "${constants}\n}  // namespace\n\nstd::optional<Asset> ${FUNCTION}(std::string_view path) {\n"
                       "${lookups}  return std::nullopt;\n}\n\n}  // namespace reprofuse\n")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL REPROFUSE_EMBED_ASSETS)
  write_assets()
endif()

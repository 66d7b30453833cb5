# Files of a folder, carried in a binary: reprofuse_embed_assets(TARGET FOLDER) adds a source that defines
# `server::web_asset` (src/server/web_assets.hpp). It is made when the target is built, and again when a file changes.
# The same file is the script that makes it: cmake -DFOLDER=... -DOUTPUT=... -P EmbedAssets.cmake

set(REPROFUSE_EMBED_ASSETS ${CMAKE_CURRENT_LIST_FILE})

function(reprofuse_embed_assets target folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  set(output ${PROJECT_BINARY_DIR}/generated/server/web_assets.cpp)
  # A file by itself in a unity build too, so that those who read the others without building them do not miss it.
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output} -P ${REPROFUSE_EMBED_ASSETS}
    DEPENDS ${files} ${REPROFUSE_EMBED_ASSETS}
    COMMENT "Embedding ${folder}"
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

# A C++ expression for a file's bytes: escapes alone, so that no byte can end the literal or join its neighbour.
function(literal_of path literal)
  file(SIZE ${path} size)
  if(size GREATER 65535)
    message(FATAL_ERROR "${path}: ${size} bytes, and C++ promises string literals of 65535")
  endif()
  file(READ ${path} bytes HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  string(REPEAT "...." 28 line)
  string(REGEX REPLACE "(${line})" "\\1\"\n        \"" bytes "${bytes}")
  set(${literal} "{\n        \"${bytes}\",\n        ${size}}" PARENT_SCOPE)
endfunction()

function(write_assets folder output)
  file(GLOB names RELATIVE ${folder} ${folder}/*)
  set(lookups "")
  foreach(name IN LISTS names)
    content_type_of(${name} type)
    literal_of(${folder}/${name} literal)
    set(condition "path == \"/${name}\"")
    if(name STREQUAL index.html)
      string(PREPEND condition "path == \"/\" || ")
    endif()
    string(APPEND lookups "  if (${condition})\n    return Asset{${literal},\n        \"${type}\"};\n")
  endforeach()
  file(WRITE ${output} "// Made by cmake/EmbedAssets.cmake.\n#include \"server/web_assets.hpp\"\n\n"
                       "namespace reprofuse::server {\n\nstd::optional<Asset> web_asset(std::string_view path) {\n"
                       "${lookups}  return std::nullopt;\n}\n\n}  // namespace reprofuse::server\n")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL REPROFUSE_EMBED_ASSETS)
  write_assets(${FOLDER} ${OUTPUT})
endif()

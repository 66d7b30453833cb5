# Run by CPack between `cmake --install` and packing: adds to the package what only Debian wants, and compresses what it wants
# compressed.
cmake_minimum_required(VERSION 3.25)
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(doc usr/share/doc/reprofuse)
set(packaging ${CPACK_REPROFUSE_SOURCE}/packaging)

# add(FILE PATH [PERMISSION...]): not file(INSTALL), which would put DESTDIR, set by CPack, before the path.
function(add file path)
  cmake_path(GET path PARENT_PATH folder)
  file(MAKE_DIRECTORY ${root}/${folder})
  file(COPY_FILE ${file} ${root}/${path})
  file(CHMOD ${root}/${path} PERMISSIONS OWNER_READ OWNER_WRITE ${ARGN})
endfunction()

foreach(unit reprofuse.service reprofuse@.service)
  add(${CPACK_REPROFUSE_PACKAGE_FILES}/${unit} lib/systemd/system/${unit} GROUP_READ WORLD_READ)
endforeach()
add(${packaging}/default etc/default/reprofuse)  # it may hold a key
add(${CPACK_REPROFUSE_PACKAGE_FILES}/copyright ${doc}/copyright GROUP_READ WORLD_READ)
add(${CPACK_REPROFUSE_PACKAGE_FILES}/changelog.Debian ${doc}/changelog.Debian GROUP_READ WORLD_READ)
add(${CPACK_REPROFUSE_SOURCE}/CHANGELOG.md ${doc}/changelog GROUP_READ WORLD_READ)

# Libraries that are compiled into the binaries: their licenses want their notices to come along.
foreach(package libpcre2-dev libutf8proc-dev libhwy-dev libfmt-dev nlohmann-json3-dev libcli11-dev)
  file(REAL_PATH /usr/share/doc/${package}/copyright notice)
  add(${notice} ${doc}/third-party/${package} GROUP_READ WORLD_READ)
endforeach()

add(${CPACK_REPROFUSE_SOURCE}/third_party/observable-plot/LICENSE ${doc}/third-party/observable-plot GROUP_READ WORLD_READ)

file(GLOB compressed ${root}/${doc}/changelog* ${root}/usr/share/man/man1/*.1)
execute_process(COMMAND gzip -9 --no-name ${compressed} COMMAND_ERROR_IS_FATAL ANY)

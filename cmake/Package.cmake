# cmake --build BUILD --target package: one Debian package of what is installed, and what Debian wants beside it. It needs
# dpkg-dev and file. A package of several (tool, library, headers) would help nobody yet: together they are a few megabytes.
set(REPROFUSE_MAINTAINER "ReproFuse maintainers <maintainers@reprofuse.invalid>" CACHE STRING "Who a package says made it")
set(packaging ${PROJECT_SOURCE_DIR}/packaging)
set(REPROFUSE_PACKAGE_FILES ${PROJECT_BINARY_DIR}/generated/package)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
string(TIMESTAMP year "%Y" UTC)
foreach(file changelog.Debian copyright)
  configure_file(${packaging}/${file}.in ${REPROFUSE_PACKAGE_FILES}/${file} @ONLY)
endforeach()
# One server, and replicas by their ports: what differs between the two units.
configure_file(${packaging}/reprofuse.service.in ${REPROFUSE_PACKAGE_FILES}/reprofuse.service @ONLY)
set(unit_title " (port %i)")
set(unit_environment "EnvironmentFile=-/etc/default/reprofuse-%i\n")
set(unit_options "--port %i ")
configure_file(${packaging}/reprofuse.service.in ${REPROFUSE_PACKAGE_FILES}/reprofuse@.service @ONLY)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME reprofuse)
set(CPACK_PACKAGE_CONTACT "${REPROFUSE_MAINTAINER}")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libopenblas0-pthread, openmpi-bin")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "ReproFuse runs language models so that every bit of an answer is a function of
the model and the request: the same on every CPU and GPU, at any batch size,
thread count and load. This package has the command line tool with a server
for the OpenAI API, the shared library with its C and C++ headers, and a small
model to try them with.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
foreach(file conffiles postinst postrm prerm triggers)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${packaging}/${file})
endforeach()
set(CPACK_PRE_BUILD_SCRIPTS ${packaging}/stage.cmake)
set(CPACK_REPROFUSE_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_REPROFUSE_PACKAGE_FILES ${REPROFUSE_PACKAGE_FILES})
include(CPack)

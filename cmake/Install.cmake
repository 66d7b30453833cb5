# cmake --install: the tool with its model and manual page, the shared library, the headers, find_package(ReproFuse) and
# reprofuse.pc.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ReproFuse)
set(generated_dir ${PROJECT_BINARY_DIR}/generated/install)

install(TARGETS reprofuse)
if(TARGET reprofuse_mpi)
  install(TARGETS reprofuse_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/reprofuse)
endif()
install(TARGETS reprofuse_shared EXPORT ReproFuseTargets)
configure_file(packaging/reprofuse.1.in ${generated_dir}/reprofuse.1 @ONLY)
install(FILES ${generated_dir}/reprofuse.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY models/arithmetic-7m DESTINATION ${CMAKE_INSTALL_DATADIR}/reprofuse/models)
install(DIRECTORY include/reprofuse DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ReproFuseTargets NAMESPACE ReproFuse:: DESTINATION ${package_dir})

configure_package_config_file(cmake/ReproFuseConfig.cmake.in ${generated_dir}/ReproFuseConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${generated_dir}/ReproFuseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated_dir}/ReproFuseConfig.cmake ${generated_dir}/ReproFuseConfigVersion.cmake
        DESTINATION ${package_dir})

# reprofuse.pc finds its folders relative to itself, so that an installed tree may be moved.
file(RELATIVE_PATH pc_to_include /${CMAKE_INSTALL_LIBDIR}/pkgconfig /${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/reprofuse.pc.in ${generated_dir}/reprofuse.pc @ONLY)
install(FILES ${generated_dir}/reprofuse.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What `cmake --install` puts where, and the Debian packages that `cpack` makes of it. Two components: `runtime` is what a node
# needs to run jobs (the program, the library, configurations, docs), `development` what building against the library needs
# besides (headers, the CMake package, examples).
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)

# All of include/ is public, and nothing else (docs/architecture.md). Headers of libtorch's engines, YAML or JSON libraries are
# in none of these, so users need only libtorch and fmt.
install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h")

# In the build tree libtorch comes with flags of our own (lockstep_torch); users get it as they know it.
target_link_libraries(lockstep PUBLIC $<INSTALL_INTERFACE:torch>)

# The program finds the library beside it, and both find a libtorch outside the system's folders where it was at build.
file(RELATIVE_PATH library_from_program /${CMAKE_INSTALL_LIBEXECDIR}/lockstep /${CMAKE_INSTALL_LIBDIR})
set_target_properties(lockstep_whole PROPERTIES INSTALL_RPATH $ORIGIN/${library_from_program} INSTALL_RPATH_USE_LINK_PATH ON)
set_target_properties(lockstep PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
if(lockstep_torch_folder)  # CMake leaves out folders inside of this tree, where scripts/install_torch.sh puts it
  set_property(TARGET lockstep lockstep_whole lockstep_ocr_plugin APPEND PROPERTY INSTALL_RPATH "${lockstep_torch_folder}/lib")
endif()

install(TARGETS lockstep EXPORT LockstepTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(TARGETS lockstep_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(TARGETS lockstep_whole RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/lockstep COMPONENT runtime)
set_target_properties(lockstep_ocr_plugin PROPERTIES INSTALL_RPATH $ORIGIN/.. INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS lockstep_ocr_plugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lockstep COMPONENT runtime)
install(EXPORT LockstepTargets NAMESPACE lockstep:: DESTINATION ${package_folder} COMPONENT development)
configure_package_config_file(cmake/LockstepConfig.cmake.in "${PROJECT_BINARY_DIR}/LockstepConfig.cmake"
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/LockstepConfig.cmake" "${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake" cmake/LockstepTorch.cmake
  DESTINATION ${package_folder} COMPONENT development)

install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep COMPONENT runtime)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep COMPONENT runtime)
install(FILES deploy/man/lockstep.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
install(FILES deploy/shell/lockstep.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lockstep
  COMPONENT runtime)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep COMPONENT runtime)
install(DIRECTORY bench/results DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep/bench COMPONENT runtime)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep COMPONENT development PATTERN CMakeLists.txt EXCLUDE)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep RENAME copyright COMPONENT runtime)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/liblockstep-dev RENAME copyright COMPONENT development)

# The documents, configurations and examples link to each other as in the source tree.
function(lockstep_install_link component folder name target)
  file(RELATIVE_PATH way "/${folder}" "/${target}")
  install(CODE "file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
    file(CREATE_LINK \"${way}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/${name}\" SYMBOLIC)" COMPONENT ${component})
endfunction()
foreach(name configs examples)
  lockstep_install_link(runtime ${CMAKE_INSTALL_DATADIR}/doc/lockstep ${name} ${CMAKE_INSTALL_DATADIR}/lockstep/${name})
endforeach()
lockstep_install_link(runtime ${CMAKE_INSTALL_DATADIR}/doc/lockstep include ${CMAKE_INSTALL_INCLUDEDIR})
lockstep_install_link(runtime ${CMAKE_INSTALL_DATADIR}/lockstep docs ${CMAKE_INSTALL_DATADIR}/doc/lockstep/docs)

# Programs that were linked against the library find it at run time once the linker's cache knows it. In other places than
# these two a user's own settings decide, and a package's script does it where the package is unpacked.
install(CODE [[
  if("$ENV{DESTDIR}" STREQUAL "" AND CMAKE_INSTALL_PREFIX MATCHES "^/usr(/local)?/?$")
    execute_process(COMMAND /sbin/ldconfig RESULT_VARIABLE result)
    if(NOT result EQUAL 0)
      message(WARNING "ldconfig failed: programs may not find liblockstep.so until it was run as root")
    endif()
  endif()]] COMPONENT runtime)

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
# `cpack` in the build folder: lockstep_VERSION_ARCH.deb and liblockstep-dev_VERSION_ARCH.deb. What they depend on is read from
# the programs themselves (dpkg-shlibdeps), so a package is for the Debian release on which it was built.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_VENDOR "the Lockstep developers")
set(CPACK_PACKAGE_CONTACT "the Lockstep developers")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME lockstep)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_GENERATE_SHLIBS ON)  # and with it the scripts that run ldconfig
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libopenblas0-pthread, openmpi-bin")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
  "The program 'lockstep', the library it is made of, configurations to begin with, and the documents.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME liblockstep-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "lockstep (= ${PROJECT_VERSION}), libtorch-dev, libfmt-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "Headers and the CMake package for programs of your own, and examples.")
include(CPack)

# What `cmake --install` puts where: the library with its public headers, a CMake package, the program, and the
# configurations and examples to begin with.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)

# Public are lockstep.h and what it includes; everything else is Lockstep's own and may change. Headers of libtorch's
# engines, YAML or JSON libraries are in none of these, so users need only libtorch and fmt.
set(public_headers
  lockstep.h
  base/config.h base/config_fields.h base/config_node.h base/config_source.h base/environment.h base/error.h
  base/process.h base/status_page.h base/unique_fd.h
  kernels/channels_last.h
  world/cluster_options.h world/init_method.h world/start.h world/world.h
  comm/collectives.h comm/group.h comm/init.h comm/progress.h comm/work.h
  global/distribute_module.h global/factories.h global/global_tensor.h global/gradient_reduction.h global/mesh.h global/module_plan.h
  global/placement.h
  plan/auto_parallel.h
  mirrored/data_parallel.h mirrored/parameter_shards.h mirrored/sharded_optimizer.h
  data/aligned.h data/axis_map.h data/batch.h data/check.h data/dataset.h data/fused_plan.h data/loader.h
  data/pipeline.h data/problem.h data/random.h data/resize_axis.h data/sample_key.h data/sampler.h data/synthesize.h
  data/transform.h data/transform_spec.h
  models/registry.h
  train/config.h train/named_tensors.h train/reports.h train/run.h train/sharded/checkpoint.h
  cluster/ending.h cluster/error_file.h cluster/launch.h cluster/line_prefix.h cluster/rank_command.h cluster/rank_output.h
  cluster/report.h cluster/spawn.h cluster/stream_choice.h)
foreach(header ${public_headers})
  get_filename_component(room ${header} DIRECTORY)
  install(FILES lockstep/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep/${room})
endforeach()

# In the build tree libtorch comes with flags of our own (lockstep_torch); users get it as they know it.
target_link_libraries(lockstep PUBLIC $<INSTALL_INTERFACE:torch>)

# The program finds the library beside it, and both find a libtorch outside the system's folders where it was at build.
file(RELATIVE_PATH library_from_program /${CMAKE_INSTALL_LIBEXECDIR}/lockstep /${CMAKE_INSTALL_LIBDIR})
set_target_properties(lockstep_whole PROPERTIES INSTALL_RPATH $ORIGIN/${library_from_program} INSTALL_RPATH_USE_LINK_PATH ON)
set_target_properties(lockstep PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)

install(TARGETS lockstep EXPORT LockstepTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS lockstep_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS lockstep_whole RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/lockstep)
install(EXPORT LockstepTargets NAMESPACE lockstep:: DESTINATION ${package_folder})
configure_package_config_file(cmake/LockstepConfig.cmake.in "${PROJECT_BINARY_DIR}/LockstepConfig.cmake"
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/LockstepConfig.cmake" "${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake"
  DESTINATION ${package_folder})

install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep PATTERN CMakeLists.txt EXCLUDE)

# Every dependency Lockstep is built on; why each was chosen stands in docs/architecture.md.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL)
  # pch_defines and time_macros: what ccache needs to serve sources that use a precompiled header. The base directory
  # lets one checkout be served by what another one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                                  CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE_PROGRAM})
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # Boost's own package; CMake's module for it is no longer kept
endif()
find_package(Boost 1.74 REQUIRED)  # headers alone: Asio and Beast
find_package(ZLIB REQUIRED)

# Debian's package refers to targets of optional features it was built without; the warnings say nothing to a user.
find_package(Torch REQUIRED)

if(LOCKSTEP_WITH_MPI)
  find_package(MPI COMPONENTS C)
  if(NOT MPI_C_FOUND)
    message(STATUS "Lockstep: no MPI found; the mpi backend is built as a stub that says so")
  endif()
endif()

# libtorch reports whether its c10d carries Gloo through a compile definition.
get_target_property(_torch_definitions torch_cpu INTERFACE_COMPILE_DEFINITIONS)
if(_torch_definitions MATCHES "USE_C10D_GLOO")
  set(LOCKSTEP_HAS_GLOO ON)
else()
  set(LOCKSTEP_HAS_GLOO OFF)
  message(STATUS "Lockstep: this libtorch has no Gloo; the gloo backend is built as a stub that says so")
endif()

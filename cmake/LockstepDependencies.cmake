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
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # Boost's own package; CMake's module for it is no longer kept
endif()

# lockstep_dependency(DEBIAN_PACKAGE PACKAGE [words for find_package]): finds it, or notes what to install. All that is missing
# is reported at once, by its Debian name: CMake's own error stops at the first and names files that users do not know.
set(lockstep_missing "")
macro(lockstep_dependency debian_package package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    string(APPEND lockstep_missing "\n   ${package} (Debian's ${debian_package})")
  endif()
endmacro()

lockstep_dependency("libfmt-dev" fmt)
lockstep_dependency("libspdlog-dev" spdlog)
lockstep_dependency("libyaml-cpp-dev" yaml-cpp)
lockstep_dependency("nlohmann-json3-dev" nlohmann_json)
lockstep_dependency("libcli11-dev" CLI11)
lockstep_dependency("libssl-dev" OpenSSL COMPONENTS Crypto SSL)
lockstep_dependency("libboost-dev" Boost 1.74)  # headers alone: Asio and Beast
lockstep_dependency("zlib1g-dev" ZLIB)
lockstep_dependency("libpng-dev" PNG)

# libtorch: the system's, that in a folder of CMAKE_PREFIX_PATH, or that of a Python's torch.
set(LOCKSTEP_TORCH_PYTHON "" CACHE FILEPATH "A Python whose torch brings libtorch along; empty: find_package(Torch)")
set(lockstep_torch_folder "")
if(LOCKSTEP_TORCH_PYTHON)
  include(LockstepTorch)
  lockstep_torch_in("${LOCKSTEP_TORCH_PYTHON}")
  if(NOT lockstep_torch_folder)
    message(FATAL_ERROR " LOCKSTEP_TORCH_PYTHON is ${LOCKSTEP_TORCH_PYTHON}, which has no torch with libtorch's headers in it.\n"
      " scripts/install_torch.sh makes one that has, in build/torch2-python.")
  endif()
  lockstep_torch_targets("${lockstep_torch_folder}")
  message(STATUS "Lockstep: libtorch of ${lockstep_torch_folder}")
else()
  lockstep_dependency("libtorch-dev" Torch)
endif()

# What finding and reading text needs besides. OpenCV's headers and libraries are searched by themselves, as its CMake package
# asks for all of OpenCV; its decoders (imgcodecs), which load a hundred libraries into each rank, are not used.
set(LOCKSTEP_OCR_LIBRARIES "")
set(LOCKSTEP_HAS_OCR OFF)
if(LOCKSTEP_WITH_OCR)
  find_path(LOCKSTEP_OPENCV_HEADERS opencv2/imgproc.hpp PATH_SUFFIXES opencv4)
  find_library(LOCKSTEP_OPENCV_CORE opencv_core)
  find_library(LOCKSTEP_OPENCV_IMGPROC opencv_imgproc)
  find_path(LOCKSTEP_CLIPPER_HEADERS polyclipping/clipper.hpp)
  find_library(LOCKSTEP_CLIPPER polyclipping)
  mark_as_advanced(LOCKSTEP_OPENCV_HEADERS LOCKSTEP_OPENCV_CORE LOCKSTEP_OPENCV_IMGPROC LOCKSTEP_CLIPPER_HEADERS LOCKSTEP_CLIPPER)
  set(ocr_missing "")
  if(NOT LOCKSTEP_OPENCV_HEADERS OR NOT LOCKSTEP_OPENCV_CORE OR NOT LOCKSTEP_OPENCV_IMGPROC)
    string(APPEND ocr_missing "\n   OpenCV's imgproc (Debian's libopencv-imgproc-dev)")
  endif()
  if(NOT LOCKSTEP_CLIPPER_HEADERS OR NOT LOCKSTEP_CLIPPER)
    string(APPEND ocr_missing "\n   Clipper 6 (Debian's libpolyclipping-dev)")
  endif()
  if(NOT ocr_missing)
    set(LOCKSTEP_HAS_OCR ON)
    set(LOCKSTEP_OCR_LIBRARIES ${LOCKSTEP_OPENCV_IMGPROC} ${LOCKSTEP_OPENCV_CORE} ${LOCKSTEP_CLIPPER})
  elseif(LOCKSTEP_WITH_OCR STREQUAL "AUTO")
    message(STATUS "Lockstep: models of text in pictures will be an error that says what is missing:${ocr_missing}")
  else()
    string(APPEND lockstep_missing "${ocr_missing}")
  endif()
endif()

# (Lines that begin with a space are printed as they are; others are wrapped in the middle of commands.)
if(lockstep_missing)
  message(FATAL_ERROR " Lockstep needs these packages, and CMake did not find them:${lockstep_missing}\n"
    " On Debian, scripts/install_dependencies.sh installs everything. Packages in folders of your own: -DCMAKE_PREFIX_PATH=FOLDER")
endif()
if(LOCKSTEP_BUILD_TESTS)
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gtest OR NOT TARGET GTest::gmock)
    message(FATAL_ERROR
      " Lockstep's tests need GoogleTest, and CMake did not find it (Debian's libgtest-dev and libgmock-dev).\n"
      " Build without tests: -DLOCKSTEP_BUILD_TESTS=OFF. Or install what tests need: scripts/install_dependencies.sh test")
  endif()
endif()

if(LOCKSTEP_WITH_MPI)
  find_package(MPI COMPONENTS C)
  if(NOT MPI_C_FOUND)
    message(STATUS "Lockstep: no MPI found; the mpi backend is built as a stub that says so")
  endif()
endif()

# NCCL, for a libtorch with CUDA: the library that this libtorch loads itself, so that a process has one. That of a Python lies
# beside it.
set(LOCKSTEP_HAS_NCCL OFF)
if(TARGET torch_cuda)
  set(nccl_folder "${lockstep_torch_folder}/../nvidia/nccl")
  find_path(LOCKSTEP_NCCL_HEADERS nccl.h HINTS "${nccl_folder}/include")
  find_library(LOCKSTEP_NCCL NAMES libnccl.so.2 nccl HINTS "${nccl_folder}/lib")
  mark_as_advanced(LOCKSTEP_NCCL_HEADERS LOCKSTEP_NCCL)
  if(LOCKSTEP_NCCL_HEADERS AND LOCKSTEP_NCCL)
    set(LOCKSTEP_HAS_NCCL ON)
  else()
    message(STATUS "Lockstep: no NCCL found beside this libtorch; the nccl backend is built as a stub that says so")
  endif()
endif()

# Decoders of pictures on disk. OpenCV's would load a hundred libraries into each rank.
set(LOCKSTEP_PICTURE_LIBRARIES PNG::PNG)
# LOCKSTEP_<NAME>: the library, which Debian has in that package; empty where it is missing.
macro(lockstep_find_decoder name header library package format)
  find_path(LOCKSTEP_${name}_HEADERS ${header})
  find_library(LOCKSTEP_${name} ${library})
  mark_as_advanced(LOCKSTEP_${name}_HEADERS LOCKSTEP_${name})
  if(LOCKSTEP_${name}_HEADERS AND LOCKSTEP_${name})
    list(APPEND LOCKSTEP_PICTURE_LIBRARIES ${LOCKSTEP_${name}})
  else()
    set(LOCKSTEP_${name} "")
    message(STATUS "Lockstep: no lib${library} found (Debian's ${package}); ${format} pictures will be an error that says so")
  endif()
endmacro()
lockstep_find_decoder(TURBOJPEG turbojpeg.h turbojpeg libturbojpeg0-dev JPEG)
lockstep_find_decoder(WEBP webp/decode.h webp libwebp-dev WebP)
find_package(TIFF 4.5 QUIET)  # the first one in which handlers of errors and limits of memory are a file's own
set(LOCKSTEP_TIFF "${TIFF_FOUND}")
if(LOCKSTEP_TIFF)
  list(APPEND LOCKSTEP_PICTURE_LIBRARIES TIFF::TIFF)
else()
  message(STATUS "Lockstep: no libtiff 4.5 found (Debian's libtiff-dev); TIFF pictures will be an error that says so")
endif()

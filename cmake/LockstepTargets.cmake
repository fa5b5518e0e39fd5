# Helpers that give every room, program and test the same flags.

# Where <lockstep/...> and <apps/...> are found: public headers in include/, internal ones beside their sources. The library `lockstep` passes on
# the first alone, so programs that link it, in this tree and outside, see public headers only.
set(LOCKSTEP_INCLUDE_FOLDERS ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})

# Flags for all of Lockstep's own code.
add_library(lockstep_flags INTERFACE)
target_compile_features(lockstep_flags INTERFACE cxx_std_20)
target_compile_options(lockstep_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wpedantic
  $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
# g++ 12 to 14 lose track of lengths in inlined std::string and std::vector, and warn of faults that are none.
target_compile_options(lockstep_flags INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
  # g++'s manual: with -fsanitize these warnings have more false positives: libtorch's optional<Generator>, sums of
  # strings, and the frames of Boost.Asio's coroutines.
  target_compile_options(lockstep_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds> $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)
  if(LOCKSTEP_SANITIZE STREQUAL "thread")
    # g++ knows no fences under ThreadSanitizer; Boost.Asio's queues have locks as well.
    target_compile_definitions(lockstep_flags INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

# libtorch as a system dependency: its headers are not ours to warn about.
add_library(lockstep_torch INTERFACE)
target_link_libraries(lockstep_torch INTERFACE torch)
# Its inline code must be compiled as the library was: without NDEBUG its classes have more members, and check what cannot hold.
target_compile_definitions(lockstep_torch INTERFACE $<$<CONFIG:Debug>:NDEBUG>)
foreach(dir ${TORCH_INCLUDE_DIRS})
  target_include_directories(lockstep_torch SYSTEM INTERFACE ${dir})
endforeach()
if(lockstep_torch_folder)
  lockstep_fmt_first(lockstep_torch "${PROJECT_BINARY_DIR}/fmt_first")
endif()

# lockstep_precompiled_header(NAME LIBRARY HEADER...): a precompiled header that targets share, with the usage of LIBRARY.
# (GENERATE: it leaves a file alone that is right, so that configuring again does not build everything again.)
function(lockstep_precompiled_header name library)
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/pch/${name}.cpp" CONTENT "// Holds the precompiled header.\n")
  add_library(lockstep_${name} OBJECT "${PROJECT_BINARY_DIR}/pch/${name}.cpp")
  set_target_properties(lockstep_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
  target_link_libraries(lockstep_${name} PRIVATE lockstep_flags ${library})
  target_precompile_headers(lockstep_${name} PRIVATE ${ARGN})
  target_compile_options(lockstep_${name} PRIVATE -fpch-preprocess)
endfunction()

# lockstep_share_precompiled_header(TARGET NAME): the last call counts.
function(lockstep_share_precompiled_header target name)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  set_target_properties(${target} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM lockstep_${name})
  add_dependencies(${target} lockstep_${name})
endfunction()

# What uses libtorch is compiled with -O2, a fifth faster than with -O3: loops that are hot have -O3 of their own
# (lockstep_instruction_sets). What is in the folder of tests (tests/CMakeLists.txt) is not optimized.
target_compile_options(lockstep_torch INTERFACE
  $<BUILD_INTERFACE:$<$<AND:$<CONFIG:Release>,$<NOT:$<STREQUAL:$<TARGET_PROPERTY:FOLDER>,tests>>>:-O2>>)

# Three, as g++ instantiates what a precompiled header asks for once more in each source that uses it: 4.5 s with
# torch/torch.h, 2 s with ATen alone. Of the other rooms' sources, which take 1 to 2 s, most is the standard library and fmt.
lockstep_precompiled_header(torch_pch lockstep_torch <torch/torch.h>)
lockstep_precompiled_header(aten_pch lockstep_torch <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <torch/library.h>)
lockstep_precompiled_header(plain_pch fmt::fmt <algorithm> <array> <chrono> <filesystem> <functional> <map> <memory> <optional>
  <string> <string_view> <vector> <fmt/format.h>)

# lockstep_use_torch(TARGET [PCH]): link libtorch and share a precompiled header, torch_pch unless it is given; under tests/, theirs.
function(lockstep_use_torch target)
  set(pch torch_pch ${ARGN})
  list(GET pch -1 pch)
  if(CMAKE_FOLDER STREQUAL "tests")
    set(pch torch_test_pch)
  endif()
  # Not the property POSITION_INDEPENDENT_CODE: it means -fPIE for a program, and the header is built with -fPIC.
  target_compile_options(${target} PRIVATE -fPIC)
  target_link_libraries(${target} PRIVATE lockstep_torch)
  lockstep_share_precompiled_header(${target} ${pch})
endfunction()

# lockstep_allow_inlined_torch(TARGET): for rooms that use torch::autograd::Function. g++ 13 and 14 lose track of the memory of
# a std::vector<bool> and a SmallVector in templates of libtorch, and warn of faults that are none.
function(lockstep_allow_inlined_torch target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-maybe-uninitialized)
  endif()
endfunction()

# lockstep_room(NAME [ATEN | TORCH] [APART] [PROGRAM] SOURCES ... [LINK ...]): one folder under lockstep/ or apps/, as an object
# library that the library `lockstep` collects. TORCH: it uses libtorch; ATEN: only its tensors, no modules or optimizers (which compiles faster).
# Without these the room must not include libtorch; its tests then run under TSan. APART: its files use the same local
# names, so a unity build leaves them apart. PROGRAM, for folders under apps/: a part of the program `lockstep` alone, not of the library.
function(lockstep_room name)
  cmake_parse_arguments(ROOM "TORCH;ATEN;APART;PROGRAM" "" "SOURCES;LINK" ${ARGN})
  add_library(lockstep_${name} OBJECT ${ROOM_SOURCES})
  set_target_properties(lockstep_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(lockstep_${name} PUBLIC ${LOCKSTEP_INCLUDE_FOLDERS})
  target_link_libraries(lockstep_${name} PRIVATE lockstep_flags PUBLIC fmt::fmt spdlog::spdlog Threads::Threads ${ROOM_LINK})
  if(ROOM_APART)
    set_target_properties(lockstep_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  if(ROOM_TORCH)
    lockstep_use_torch(lockstep_${name})
  elseif(ROOM_ATEN)
    lockstep_use_torch(lockstep_${name} aten_pch)
  else()
    lockstep_share_precompiled_header(lockstep_${name} plain_pch)
  endif()
  if(NOT ROOM_PROGRAM)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOMS lockstep_${name})
  endif()
endfunction()

# lockstep_instruction_sets(ROOM SOURCE TABLE [ROOM_ABOVE]): compiles SOURCE, which defines LOCKSTEP_TABLE, once for each
# instruction set, as tables baseline_TABLE, avx2_TABLE, avx512_TABLE (where there are none such, all are the baseline, and
# base/instruction_sets.h takes the first). Contraction into fused multiply-adds would let the sets round differently; loops
# that select must not be read as a possible trap.
function(lockstep_instruction_sets room source table)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(flags_avx2 -mavx2 -mfma)
    set(flags_avx512 -mavx2 -mfma -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
  endif()
  foreach(set baseline avx2 avx512)
    set(target lockstep_${set}_${table})
    add_library(${target} OBJECT ${source})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${target} PRIVATE ${LOCKSTEP_INCLUDE_FOLDERS})
    target_link_libraries(${target} PRIVATE lockstep_flags)
    target_compile_definitions(${target} PRIVATE LOCKSTEP_TABLE=${set}_${table})
    target_compile_options(${target} PRIVATE -O3 -ffp-contract=off -fno-trapping-math ${flags_${set}})
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOMS ${target})
    # Whoever links the room, or the room above it that contains its objects, gets the tables along with it.
    foreach(linked ${room} ${ARGN})
      target_link_libraries(lockstep_${linked} INTERFACE $<TARGET_OBJECTS:${target}>)
    endforeach()
  endforeach()
endfunction()

# Helpers that give every room, program and test the same flags.

# Where <lockstep/...> is found: public headers in include/, internal ones beside their sources. The library `lockstep` passes on
# the first alone, so programs that link it, in this tree and outside, see public headers only.
set(LOCKSTEP_INCLUDE_FOLDERS ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})

# Flags for all of Lockstep's own code.
add_library(lockstep_flags INTERFACE)
target_compile_features(lockstep_flags INTERFACE cxx_std_20)
target_compile_options(lockstep_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wpedantic
  $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
  # g++'s manual: with -fsanitize this warning has more false positives. libtorch's optional<Generator> is one.
  target_compile_options(lockstep_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
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

# One precompiled header for all rooms that use libtorch: building it takes 40 s, and saves 10 s for each source.
# (GENERATE: it leaves a file alone that is right, so that configuring again does not build everything again.)
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/pch/torch_pch.cpp" CONTENT "// Holds the precompiled header.\n")
add_library(lockstep_torch_pch OBJECT "${PROJECT_BINARY_DIR}/pch/torch_pch.cpp")
set_target_properties(lockstep_torch_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(lockstep_torch_pch PRIVATE lockstep_flags lockstep_torch)
target_precompile_headers(lockstep_torch_pch PRIVATE <torch/torch.h>)
target_compile_options(lockstep_torch_pch PRIVATE -fpch-preprocess)

# lockstep_use_torch(TARGET): link libtorch and share the precompiled header.
function(lockstep_use_torch target)
  # Not the property POSITION_INDEPENDENT_CODE: it means -fPIE for a program, and the header is built with -fPIC.
  target_compile_options(${target} PRIVATE -fPIC)
  target_link_libraries(${target} PRIVATE lockstep_torch)
  target_precompile_headers(${target} REUSE_FROM lockstep_torch_pch)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
endfunction()

# lockstep_allow_inlined_torch(TARGET): for rooms that use torch::autograd::Function. g++ 13 and 14 lose track of the memory of
# a std::vector<bool> and a SmallVector in templates of libtorch, and warn of faults that are none.
function(lockstep_allow_inlined_torch target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-maybe-uninitialized)
  endif()
endfunction()

# lockstep_room(NAME [TORCH] [APART] SOURCES ... [LINK ...]): one folder under lockstep/, as an object library that the
# library `lockstep` collects. Without TORCH the room must not include libtorch; its tests then run under TSan. APART: its
# files use the same local names (each check has its kCheck), so a unity build leaves them apart.
function(lockstep_room name)
  cmake_parse_arguments(ROOM "TORCH;APART" "" "SOURCES;LINK" ${ARGN})
  add_library(lockstep_${name} OBJECT ${ROOM_SOURCES})
  set_target_properties(lockstep_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(lockstep_${name} PUBLIC ${LOCKSTEP_INCLUDE_FOLDERS})
  target_link_libraries(lockstep_${name} PRIVATE lockstep_flags PUBLIC fmt::fmt spdlog::spdlog Threads::Threads ${ROOM_LINK})
  if(ROOM_APART)
    set_target_properties(lockstep_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  if(ROOM_TORCH)
    lockstep_use_torch(lockstep_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOMS lockstep_${name})
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

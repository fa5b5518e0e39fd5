# libtorch from the Python package of PyTorch, as targets `torch`, `torch_cpu` and so on. Read by the build and, where Lockstep
# was built with such a libtorch, by find_package(Lockstep).
#
# The package's own TorchConfig.cmake asks for CUDA's toolkit with its compiler. C++ code needs neither: the package brings
# CUDA's libraries and headers along.

# lockstep_torch_in(PYTHON): the folder of that Python's torch, as `lockstep_torch_folder`; empty where it has none.
function(lockstep_torch_in python)
  execute_process(COMMAND "${python}" -c
    "import importlib.util, os; print(os.path.dirname(os.path.realpath(importlib.util.find_spec('torch').origin)), end='')"
    OUTPUT_VARIABLE folder RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed EQUAL 0 OR NOT EXISTS "${folder}/share/cmake/Caffe2/Caffe2Targets.cmake")
    set(folder "")
  endif()
  set(lockstep_torch_folder "${folder}" PARENT_SCOPE)
endfunction()

# lockstep_torch_targets(FOLDER): makes the targets, and sets TORCH_INCLUDE_DIRS as TorchConfig.cmake does.
function(lockstep_torch_targets folder)
  set(include_folders "${folder}/include" "${folder}/include/torch/csrc/api/include")
  set(TORCH_INCLUDE_DIRS ${include_folders} PARENT_SCOPE)
  if(TARGET torch)
    return()
  endif()
  # The file names targets that others define. Only CUDA's runtime is something to link; it lies beside the package.
  set(targets "${folder}/share/cmake/Caffe2/Caffe2Targets.cmake")
  file(READ "${targets}" text)
  string(REGEX MATCHALL "[a-z0-9_]+::[a-z0-9_]+" named "${text}")
  list(REMOVE_DUPLICATES named)
  foreach(other ${named})
    if(NOT TARGET ${other})
      add_library(${other} INTERFACE IMPORTED GLOBAL)
    endif()
  endforeach()
  include("${targets}")
  foreach(target headeronly c10 c10_cuda torch_cpu torch_cpu_library torch_cuda torch_cuda_library torch torch_library)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES IMPORTED_GLOBAL TRUE)
    endif()
  endforeach()
  set_property(TARGET torch APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${include_folders})
  # These libraries export a part of an older libstdc++ (std::filesystem and more) that crashes in programs of newer compilers.
  # A name is looked up in a program's libraries in their order, so libstdc++ itself must be the first.
  target_link_options(torch INTERFACE "SHELL:-Wl,--push-state,--no-as-needed -lstdc++ -Wl,--pop-state")

  # CUDA and NCCL, each a package of its own: nvidia/cu13/include, or nvidia/cuda_runtime/include and so on.
  if(TARGET torch_cuda)
    file(GLOB cuda_headers "${folder}/../nvidia/*/include")
    file(GLOB cuda_runtime "${folder}/../nvidia/*/lib/libcudart.so.*")
    # The runtime's headers include others that some packages leave to that of the compiler; a toolkit has them, too.
    find_path(LOCKSTEP_CUDA_CRT_HEADERS crt/host_defines.h HINTS ${cuda_headers}
      PATHS "$ENV{CUDA_HOME}/include" "$ENV{CUDA_PATH}/include" /usr/local/cuda/include
        "${folder}/../triton/backends/nvidia/include")
    mark_as_advanced(LOCKSTEP_CUDA_CRT_HEADERS)
    if(LOCKSTEP_CUDA_CRT_HEADERS)
      list(APPEND cuda_headers "${LOCKSTEP_CUDA_CRT_HEADERS}")
    endif()
    list(REMOVE_DUPLICATES cuda_headers)
    set_property(TARGET torch_cuda APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${cuda_headers})
    if(cuda_runtime)
      target_link_libraries(torch::cudart INTERFACE ${cuda_runtime})
    endif()
  endif()
endfunction()

# lockstep_fmt_first(TARGET FOLDER): the package has a copy of fmt among its headers. TARGET passes on a folder that comes
# before them and holds the fmt that find_package found, as a link; that is the one that is linked.
function(lockstep_fmt_first target folder)
  get_target_property(headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  find_path(LOCKSTEP_FMT_HEADERS fmt/core.h HINTS ${headers})
  mark_as_advanced(LOCKSTEP_FMT_HEADERS)
  file(MAKE_DIRECTORY "${folder}")
  file(CREATE_LINK "${LOCKSTEP_FMT_HEADERS}/fmt" "${folder}/fmt" SYMBOLIC)
  target_include_directories(${target} SYSTEM BEFORE INTERFACE "${folder}")
endfunction()

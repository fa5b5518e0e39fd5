# Installs Lockstep into a fresh folder, builds the project beside this file against it (each public header alone, and a
# program), and runs the program on two ranks.
# cmake -DBUILD_DIR=... -DSOURCE_DIR=... -DCOMPILER=... -P check.cmake
set(work "${BUILD_DIR}/tests/install_consumer")
set(prefix "${work}/prefix")
file(REMOVE_RECURSE "${work}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect_output words)
  string(FIND "${output}" "${words}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected '${words}' in:\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${prefix}")

# What is installed is what is public (include/), all of it and nothing else.
file(GLOB_RECURSE headers RELATIVE "${prefix}/include" "${prefix}/include/*")
file(GLOB_RECURSE public RELATIVE "${SOURCE_DIR}/include" "${SOURCE_DIR}/include/*.h")
list(LENGTH public count)
if(count EQUAL 0 OR NOT "${headers}" STREQUAL "${public}")
  message(FATAL_ERROR "installed are\n${headers}\nbut public are\n${public}")
endif()

run(${CMAKE_COMMAND} -S "${SOURCE_DIR}/tests/install_consumer" -B "${work}/build" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${COMPILER} "-DEXAMPLES=${prefix}/share/lockstep/examples"
    "-DDOCS=${prefix}/share/doc/lockstep/docs" "-DCMAKE_PREFIX_PATH=${prefix};${PREFIX_PATH}")
expect_output("public headers: ${count}")
# All that do not compile are reported, not only the first.
run(${CMAKE_COMMAND} --build "${work}/build" --parallel 2 -- -k)
run("${prefix}/bin/lockstep" --version)
expect_output("lockstep ")
string(STRIP "${output}" version)
run("${prefix}/bin/lockstep" run --nproc-per-node 2 "${work}/build/consumer")
expect_output("[rank 0] rank 0 counted 2 rank(s)")
expect_output("[rank 1] rank 1 counted 2 rank(s)")
expect_output("[rank 0] ${version}\n")  # of the library, by version.h
run("${prefix}/bin/lockstep" run --nproc-per-node 2 "${prefix}/bin/lockstep" train --config "${prefix}/share/lockstep/examples/spirals.yaml"
    "plugins=[${work}/build/libspirals_plugin.so]" train.epochs=1 "system.work_dir=${work}/spirals")
if(NOT EXISTS "${work}/spirals/result.json")
  message(FATAL_ERROR "the plugin's model was not trained")
endif()
file(WRITE "${work}/classifier.yaml" "plugins: [${work}/build/libclassifier_plugin.so]\n")
run("${prefix}/bin/lockstep" train --config "${work}/classifier.yaml" --list models)
expect_output("two_blocks")
foreach(file share/lockstep/configs/mlp_mnist.yaml share/lockstep/examples/toy_ddp.cpp share/man/man1/lockstep.1
    share/bash-completion/completions/lockstep)
  if(NOT EXISTS "${prefix}/${file}")
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
# What the installed documents link to is installed, too.
run("${SOURCE_DIR}/scripts/check_docs.sh" "${prefix}/share/doc/lockstep" "${prefix}/share/lockstep/examples")
file(REMOVE_RECURSE "${work}")

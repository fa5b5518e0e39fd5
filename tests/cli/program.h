// Running the real `lockstep` and programs around it.
#pragma once

#include "support/read_file.h"

#include <lockstep/base/environment.h>
#include <lockstep/base/process.h>
#include <lockstep/base/temporary_folder.h>

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::test {

using Words = std::vector<std::string>;

/// The environment of a user without any launcher: no rank variables, one OpenMP thread, and first lines of runs with
/// the variables that decided (LOCKSTEP_VERBOSE).
Environment plain_environment();

/// `plain_environment` with `more` laid over it.
Environment environment_with(const Environment& more);

/// Runs a program to its end.
Captured run_program(Words arguments, const Environment& more = {});

/// Runs `lockstep ARGUMENTS...`.
Captured lockstep(Words arguments, const Environment& more = {});

/// `lockstep run --nproc-per-node RANKS PROGRAM...`.
Captured under_lockstep_run(int ranks, Words program, const Environment& more = {});

/// `mpirun -n RANKS PROGRAM...`. Only where the build has MPI.
Captured under_mpirun(int ranks, Words program, const Environment& more = {});

std::vector<std::string> lines_of(const std::string& text);
void write_file(const std::filesystem::path& path, std::string_view text);

/// A folder with a tiny data set in cifar10's layout and a configuration that trains a small network on it in 3 steps
/// an epoch on 1 rank.
class Workbench {
 public:
  Workbench();

  std::filesystem::path path() const { return folder_.path(); }
  std::filesystem::path data() const { return path() / "data"; }
  std::string config() const { return path() / "run.yaml"; }
  std::filesystem::path work_dir() const { return path() / "out"; }

  /// `lockstep train` on that configuration, as words to run.
  Words train(Words more = {}) const;

 private:
  TemporaryFolder folder_;
};

}  // namespace lockstep::test

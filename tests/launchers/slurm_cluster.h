// A whole Slurm for one test: munged, slurmctld and a slurmd for each node, with a configuration, a key, state, logs
// and ports of their own.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/base/temporary_folder.h>

#include <optional>
#include <string>

#include "cli/program.h"

namespace lockstep::test {

/// The nodes are this machine several times over, with 8 CPUs each as far as Slurm knows. Everything that Slurm starts,
/// its steps included, lives in one namespace of process numbers and ends with the first process in it, which is a
/// child of this process and dies with it.
class SlurmCluster {
 public:
  /// Why there can be none here: programs that are missing, or namespaces that are not allowed.
  static std::optional<std::string> obstacle();

  /// Waits until all nodes can take jobs. Error(timeout), with the logs, when they do not get there.
  explicit SlurmCluster(int nodes);
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;
  ~SlurmCluster();

  /// A name that Slurm knows the node by and that resolves to an address of this machine everywhere.
  static std::string node(int index);

  /// For srun, sbatch and the like: this cluster, this build's `lockstep`, and `more`.
  Environment environment(const Environment& more = {}) const;

  /// Runs a program, of Slurm or other, to its end.
  Captured run(Words arguments, const Environment& more = {}) const;
  Captured srun(Words arguments, const Environment& more = {}) const;

  int control_port() const { return std::stoi(control_port_); }

 private:
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }
  void configure();
  void wait_until_ready();
  std::string logs() const;

  int nodes_;
  TemporaryFolder folder_;
  std::string control_port_;
  std::optional<Child> daemons_;
};

}  // namespace lockstep::test

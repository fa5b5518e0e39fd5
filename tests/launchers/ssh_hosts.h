// Two "hosts" that reach each other by ssh: network namespaces with names, and a real sshd in each.
#pragma once

#include "cli/two_nodes.h"

#include <optional>

namespace lockstep::test {

/// One at a time. Keys, configurations and logs lie in a temporary folder; a user's own are not touched.
class SshHosts {
 public:
  /// Waits until both answer. Error(io), with what the sshds said, when they do not.
  SshHosts();

  /// Why there are none here; empty: there are.
  const std::string& missing() const { return missing_; }

  /// "hosta" or "hostb": a name that both know.
  static std::string name(int host);

  /// The words that run a program on that host, under its name.
  Words on(int host, Words words) const;

  /// For Open MPI's mpirun on one of the hosts: which ssh to use, and that it may be run by root.
  Environment for_mpirun() const;

 private:
  std::string ssh() const;
  void start_sshd(int host);
  void wait_until_reached(int host);

  TwoHosts namespaces_;
  TemporaryFolder folder_;
  std::string missing_;
  std::vector<Child> sshds_;
};

}  // namespace lockstep::test

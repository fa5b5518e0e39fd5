// Jobs on two nodes of this machine, and on two "hosts" made of network namespaces.
#pragma once

#include "cli/program.h"

#include <array>

namespace lockstep::test {

/// A user's environment with this build's `lockstep` in PATH, and deadlines that end a test whose ranks do not meet.
Environment environment_of_scripts();

/// Runs a program in a folder, with `more` laid over that environment.
Captured run_in(const std::filesystem::path& folder, Words words, const Environment& more = {});

/// Runs the same words as two nodes at once, each with its own variables; by node.
std::array<Captured, 2> on_two_nodes(const std::filesystem::path& folder, const Words& words,
                                     const std::array<Environment, 2>& variables);

/// What makes two processes of this machine the nodes 127.0.0.2 and 127.0.0.3 of a list.
std::array<Environment, 2> loopback_nodes();

/// The run left a result of so many ranks.
void expect_result(const Workbench& bench, int ranks);

/// Two network namespaces joined by a cable: two hosts, as far as the network knows. One at a time.
class TwoHosts {
 public:
  TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  ~TwoHosts();

  /// False where namespaces cannot be made, which needs root and iproute2.
  bool made() const { return made_; }

  static constexpr const char* kObstacle = "network namespaces cannot be made here (needs root and iproute2)";

  static std::string address(int host);

  /// The name of that host's end of the cable.
  static std::string interface(int host);

  /// The words that run a program on that host, with the secret that launchers want between hosts.
  static Words on(int host, Words words);

  /// Pulls the cable: from now on neither hears anything of the other. False when that is not possible.
  static bool unplug();
  /// Puts it back.
  static bool plug_in();

 private:
  bool made_ = false;
};

}  // namespace lockstep::test

// Launchers that meet: started in the background, listened to, and ended.
#pragma once

#include "cli/program.h"

#include <string>

namespace lockstep::test {

/// An endpoint on this machine, and what --rdzv_conf says.
class Rendezvous {
 public:
  explicit Rendezvous(std::string conf = "");
  static Rendezvous at(const std::string& port, std::string conf);

  const std::string& port() const { return port_; }
  Words flags() const;

 private:
  std::string port_;
  std::string conf_;
};

/// A `lockstep run`, with all that it and its ranks say.
class Agent {
 public:
  /// Ranks of the test's rank program, which does these actions; or of another program, with these arguments.
  Agent(const Rendezvous& rendezvous, Words flags, const Words& actions,
        const std::string& program = LOCKSTEP_RANK_PROGRAM);
  Agent(Words flags, const Words& actions);
  static Agent of_program(const Rendezvous& rendezvous, Words flags, Words program);
  /// On one of two hosts (TwoHosts).
  static Agent on_host(int host, Words flags, const Words& actions);
  static Agent of_program(Words flags, const Words& program);
  /// Any command that becomes a launcher, e.g. a shell's.
  static Agent of_command(Words command);

  /// Waits until it has said these words so often. False when it ends first, or says nothing for long.
  bool says(const std::string& words, int times = 1);

  void kill(int signal);
  pid_t pid() const { return child_.pid(); }

  /// A rank of it that is stopped, as soon as one is; 0 when none is within a minute.
  pid_t wait_for_stopped_rank() const;

  /// How it ended, after at most a minute; it is killed then.
  ExitStatus wait();

  const std::string& said() const { return said_; }

 private:
  explicit Agent(const Words& command);
  bool read_some(std::chrono::milliseconds limit);

  Child child_;
  std::string said_;
};

}  // namespace lockstep::test

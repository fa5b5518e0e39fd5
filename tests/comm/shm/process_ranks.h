// Processes as ranks of the shared-memory core: they meet, map the segment and watch each other as in earnest.
#pragma once

#include <lockstep/comm/shm/arena.h>
#include <lockstep/comm/shm/engine.h>
#include <lockstep/comm/shm/rendezvous.h>

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/shm/thread_ranks.h"
#include "support/forks.h"

namespace lockstep::shm::test {

inline bool mentions(const Error& error, const std::string& words) {
  return std::string(error.what()).find(words) != std::string::npos;
}

/// Carries the invitation of rank 0 to the other ranks, through a pipe made before they were forked.
class Invitations {
 public:
  Invitations();
  void send(const std::string& invitation, int guests) const;
  std::string receive() const;

 private:
  Pipe pipe_;
};

/// Lets processes wait for each other without the group under test; made before they are forked.
class Tokens {
 public:
  Tokens() : pipe_(make_pipe()) {}
  void give(int count = 1) const;
  void take(int count = 1) const;

 private:
  Pipe pipe_;
};

/// What a rank has of its group.
class ProcessRank {
 public:
  ProcessRank(const Invitations& invitations, const Geometry& geometry, int rank);

  int rank() const { return rank_; }
  int size() const { return size_; }
  Engine& engine() { return *engine_; }
  std::unique_ptr<Engine> take_engine() { return std::move(engine_); }
  Arena& arena() { return *arena_; }
  ThreadRank as_thread_rank() { return {*engine_, *blocks_, nullptr, rank_, size_}; }

 private:
  int rank_;
  int size_;
  UniqueFd held_;
  std::shared_ptr<SharedBlocks> blocks_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Engine> engine_;
};

/// Runs the body on n processes that have met. Outcomes as in support/forks.h.
std::vector<lockstep::test::Outcome> process_outcomes(int n, const Geometry& geometry,
                                                      const std::function<void(ProcessRank&)>& body);

/// The same, and a test failure unless all ended well.
void run_processes(int n, const Geometry& geometry, const std::function<void(ProcessRank&)>& body);

}  // namespace lockstep::shm::test

// The rendezvous store of a job's ranks, hosted by the launcher.
#pragma once

#include <cstdint>
#include <memory>

namespace lockstep::cluster {

/// A c10d TCPStore server, which programs on any libtorch or in Python can join. It runs as long as this object exists.
class StoreHost {
 public:
  /// Listens on a port that the kernel chooses. Error(io) when it cannot.
  StoreHost();
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;
  ~StoreHost();

  std::uint16_t port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The number of GPUs that libtorch can use.
int usable_gpus();

}  // namespace lockstep::cluster

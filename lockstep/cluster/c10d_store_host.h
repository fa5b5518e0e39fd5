// The c10d store for the rendezvous of a job's ranks, hosted by the launcher. Lockstep's own is in
// rank_services.h.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/cluster/processes/helper.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// A c10d TCPStore server, which programs on any libtorch or in Python can join. It runs in a process of its own,
/// because any client can fill its memory or block it. It runs as long as this object exists, and no other part depends
/// on it.
class C10dStoreHost {
 public:
  /// Listens on these addresses of this host, or on all where they are not addresses of this host, and on a port that
  /// the kernel chooses. Clients can connect at once, and get answers when the process has loaded libtorch. Error(io)
  /// when it cannot listen.
  explicit C10dStoreHost(const std::vector<std::string>& addresses = {"127.0.0.1"});

  std::uint16_t port() const { return port_; }
  Helper helper() const;

 private:
  std::uint16_t port_ = 0;
  std::optional<Child> process_;
};

/// The number of GPUs that libtorch can use.
int usable_gpus();

}  // namespace lockstep::cluster

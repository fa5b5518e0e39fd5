// A kubelet and scheduler for tests: Pods of a real API server run as processes of this machine.
//
// Of a Pod it runs the first container; there are no images, so its command must be a program here. Each Pod has an
// address of its own in 127.0.0.0/8, a host name, and the others' names in /etc/hosts, as they would be in DNS.
#pragma once

#include <apps/operator/api/access.h>

#include <filesystem>
#include <stop_token>
#include <string>

namespace lockstep::test {

struct KubeletOptions {
  kube::Access access;
  std::string space;             ///< of the Pods
  std::filesystem::path folder;  ///< logs/POD.N.log, the FIFO `commands`, and what Pods need
  std::filesystem::path claims;  ///< a volume claim NAME is the folder NAME in it
  std::string path;              ///< before /usr/bin in the containers' PATH
  std::string node = "node";     ///< its nodes are NODE-0, NODE-1, ...
  int nodes = 2;
  std::string program;  ///< this program, which becomes the containers
};

/// Runs until `stop`; then its containers are killed. A line in the FIFO `commands` is a fault:
///   kill POD [SIGNAL]   its container ends by this signal (9)
///   stop POD, cont POD  SIGSTOP, SIGCONT
///   evict POD           it is killed, and its status is Failed, Evicted, without an exit code
///   lose NODE           its containers are killed, and nothing is heard of the node any more
void run_kubelet(const KubeletOptions& options, std::stop_token stop);

}  // namespace lockstep::test

// A service in a process of its own, and what it costs: memory, processor time, and its connections with this process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace lockstep::bench {

struct ServiceProcess {
  pid_t pid = -1;
  std::uint16_t port = 0;
};

/// Tells the parent the service's port.
using ReportPort = std::function<void(std::uint16_t)>;

/// Forks before this process has threads. `serve` runs in the child, which ends with the parent: it reports its port
/// and then serves. std::runtime_error when the child ends without a port.
ServiceProcess start_service(const std::function<void(const ReportPort&)>& serve);

void end_service(const ServiceProcess& service);

/// MiB, of a line of /proc/PID/status such as "VmHWM:"; 0 where there is none.
double memory_mb(pid_t pid, std::string_view line);

/// Processor time of all threads of a process.
double cpu_seconds(pid_t pid);

struct Traffic {
  std::uint64_t bytes_to_service = 0;
  std::uint64_t bytes_from_service = 0;
  int connections = 0;
};

/// Payload of this process's open connections to a port, as the kernel counts it. `descriptors`: none is higher.
Traffic traffic_with(std::uint16_t port, int descriptors);

/// Raises the limit of open files to the most that is allowed, and returns it.
int allow_many_descriptors();

}  // namespace lockstep::bench

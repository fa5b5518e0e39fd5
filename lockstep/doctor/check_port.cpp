#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

namespace lockstep::doctor {

std::vector<Finding> check_port(const Job& job) {
  std::vector<Finding> findings;
  for (const Facts& facts : job.ranks) {
    if (!facts.port || facts.port->problem.empty()) continue;
    findings.push_back({Severity::error, "port", place(job, facts),
                        fmt::format("port {}, where the ranks are to meet, cannot be opened: {}", facts.port->number,
                                    facts.port->problem),
                        "stop that program, or choose a free port (MASTER_PORT, --master_port, ctrl_port), the same on "
                        "all hosts; on one host 'lockstep run' chooses one itself"});
  }
  return findings;
}

}  // namespace lockstep::doctor

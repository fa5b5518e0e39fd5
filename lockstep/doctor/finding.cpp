#include <lockstep/doctor/finding.h>

#include <algorithm>

namespace lockstep::doctor {

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::error: break;
  }
  return "error";
}

std::size_t count(std::span<const Finding> findings, Severity severity) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.severity == severity; }));
}

}  // namespace lockstep::doctor

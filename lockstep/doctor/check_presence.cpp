#include <lockstep/doctor/checks.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::doctor {

std::vector<Finding> check_presence(const Job& job) {
  if (job.missing.empty()) return {};
  const bool one = job.missing.size() == 1;
  return {{Severity::error, "presence", fmt::format("rank{} {}", one ? "" : "s", fmt::join(job.missing, ", ")),
           fmt::format("{} of {} ranks did not come to where ranks meet{}{}", job.missing.size(), job.size,
                       job.master.empty() ? "" : ", at ", job.master),
           fmt::format("read what {} printed: a rank that cannot reach the meeting says why. If it printed nothing, it "
                       "was not started, or with another address, port or world size",
                       one ? "it" : "they")}};
}

}  // namespace lockstep::doctor

// A look at the processes of a job: their status pages, and their resident memory in /proc.
#include <lockstep/base/files.h>
#include <lockstep/base/text.h>
#include <lockstep/dashboard/job_facts.h>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string_view>
#include <utility>

namespace lockstep::dashboard {
namespace {

/// The second number of /proc/PID/statm counts resident pages.
std::optional<std::uint64_t> resident_bytes(std::int64_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/statm", pid));
  if (!text) return std::nullopt;
  const auto begin = text->find(' ') + 1;
  const auto pages = parse_integer(std::string_view(*text).substr(begin, text->find(' ', begin) - begin));
  if (begin == 0 || !pages || *pages <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(*pages) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

RankFacts look_at(RankProcess process) {
  RankFacts facts;
  if (!process.status_file.empty()) {
    if (auto page = read_page(process.status_file, std::chrono::steady_clock::now())) {
      facts.progress = std::move(page->progress);
      facts.training = std::move(page->training);
    }
  }
  if (process.state == ProcessState::running) facts.memory = resident_bytes(process.pid);
  facts.process = std::move(process);
  return facts;
}

}  // namespace

JobFacts look_at(JobReport report, double at) {
  JobFacts facts{at, report.round, report.world, report.hosts, {}, std::move(report.decisions)};
  facts.ranks.reserve(report.ranks.size());
  for (auto& process : report.ranks) facts.ranks.push_back(look_at(std::move(process)));
  return facts;
}

}  // namespace lockstep::dashboard

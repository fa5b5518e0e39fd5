// A look at the processes of a job: their status pages and their memory here, or what the workers of a scheduler have
// reported.
#include <lockstep/base/this_host.h>
#include <lockstep/dashboard/job_facts.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

namespace lockstep::dashboard {
namespace {

constexpr std::chrono::seconds kSilence(3);  // workers report once a second

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

/// A member that has a rank. After a restart of the scheduler, its worker may not have reconnected yet: that is no
/// loss.
RankFacts facts_of(const membership::Member& member, bool recovery, membership::Time now) {
  RankFacts facts;
  facts.process = {.rank = *member.rank, .pid = member.pid, .host = member.host, .life = member.life};
  if (member.phase == membership::Phase::finished) facts.process.state = ProcessState::ended;
  const bool is_lost = membership::is_missing(member) && member.link != membership::Link::unknown;
  if (is_lost || member.phase == membership::Phase::failed) {
    facts.process.state = is_lost || recovery ? ProcessState::lost : ProcessState::failed;
    facts.process.end = member.last_error;
  }
  if (member.page) {
    facts.progress = member.page->progress;
    facts.training = member.page->training;
  }
  const bool reports = member.page || member.link == membership::Link::unknown;
  if (facts.process.state == ProcessState::running && reports && now - member.heard >= kSilence) {
    facts.silent = std::chrono::duration<double>(now - member.heard).count();
  }
  if (member.memory && facts.process.state == ProcessState::running) facts.memory = member.memory;
  return facts;
}

}  // namespace

JobFacts look_at(const membership::Membership& membership, membership::Time now) {
  JobFacts facts;
  if (membership.generation > 0) facts.generation = static_cast<int>(membership.generation);
  facts.world = membership.wanted;
  std::set<std::string> machines;
  for (const auto& member : membership.members) {
    machines.insert(member.machine);
    if (!member.rank) continue;
    facts.ranks.push_back(facts_of(member, membership.recovery, now));
  }
  std::ranges::sort(facts.ranks, {}, [](const RankFacts& one) { return one.process.rank; });
  facts.hosts = std::max(1, static_cast<int>(machines.size()));
  return facts;
}

JobFacts look_at(JobReport report, double at) {
  JobFacts facts{at, report.round, report.world, report.hosts, {}, std::move(report.decisions), {}};
  facts.ranks.reserve(report.ranks.size());
  for (auto& process : report.ranks) facts.ranks.push_back(look_at(std::move(process)));
  return facts;
}

}  // namespace lockstep::dashboard

// A live page's server inside the launcher: requests to kill pass from its thread to the launcher's through a queue.
#include <lockstep/base/text.h>
#include <lockstep/cluster/live_page.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/processes/event_loop.h>
#include <lockstep/dashboard/server.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdio.h>

#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep::cluster {
namespace {

constexpr std::size_t kMostRequests = 16;
constexpr std::size_t kLongestProgram = 1000;
constexpr std::size_t kLongestReason = 400;
constexpr std::string_view kOwnName = "lockstep run: ";

dashboard::JobDescription describe_job(const LaunchOptions& options, bool shares_job) {
  auto job = dashboard::describe_job_here();
  const auto& command = options.program.command;
  job.name = options.run_id.empty() ? std::filesystem::path(command.front()).filename().string() : options.run_id;
  // As it is typed: the path of the program is found by the launcher.
  auto words = command;
  words.front() = std::filesystem::path(words.front()).filename().string();
  job.program = cut_text(fmt::format("{}", fmt::join(words, " ")), kLongestProgram);
  job.world = options.processes;
  if (shares_job) {
    job.notes.push_back(
        fmt::format("Ranks of other hosts are not shown. This page has the ranks of the launcher on "
                    "{}; each launcher with --dashboard has a page of its own.",
                    job.host));
  }
  return job;
}

/// Why the job ended: the first line of the report.
std::string reason_of(const LaunchResult& result) {
  std::string_view text = result.report;
  text = text.substr(0, text.find('\n'));
  if (text.starts_with(kOwnName)) text.remove_prefix(kOwnName.size());
  if (text.ends_with(':')) text.remove_suffix(1);  // a list follows there
  if (!text.empty()) return cut_text(text, kLongestReason);
  return result.exit_code == 0 ? "all ranks ended well" : fmt::format("exit code {}", result.exit_code);
}

/// The folder for the file of an ended job; empty: none.
std::filesystem::path folder_for(const std::string& work_dir, const LogFolder& logs) {
  std::error_code ignored;
  if (!work_dir.empty() && std::filesystem::is_directory(work_dir, ignored)) return work_dir;
  return logs.stays() ? logs.path() : std::filesystem::path();
}

}  // namespace

/// Requests of the server's thread for the launcher's.
class KillRequests {
 public:
  /// False when there are too many already.
  bool put(const dashboard::KillRequest& request) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMostRequests) return false;
    waiting_.push_back(request);
    some_.raise();
    return true;
  }
  std::optional<dashboard::KillRequest> take() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      some_.lower();
      return std::nullopt;
    }
    const auto request = waiting_.front();
    waiting_.pop_front();
    return request;
  }
  int fd() const noexcept { return some_.fd(); }

 private:
  std::mutex mutex_;
  std::deque<dashboard::KillRequest> waiting_;
  Flag some_;
};

class LivePage::State {
 public:
  State(const LaunchOptions& options, bool shares_job)
      : options_(options), server_(server_options(), describe_job(options, shares_job)) {
    ::dprintf(options.err, "lockstep run: the live page of this job: %s\n", server_.address().c_str());
  }

  Watching watch(int round) {
    Watching watching;
    watching.round = round;
    watching.report = [this](dashboard::JobReport report) {
      if (!report.ranks.empty()) first_rank_ = report.ranks.front().rank;
      server_.report(std::move(report));
    };
    if (options_.page->can_kill) {
      watching.requests_fd = requests_.fd();
      watching.take_request = [this] { return requests_.take(); };
    }
    watching.answer = [this](const auto& request, bool ok, const auto& text) { server_.answer(request, ok, text); };
    return watching;
  }

  void end(const LaunchResult& result, const LogFolder& logs) {
    const auto page = server_.end({result.exit_code, reason_of(result)});
    const auto folder = folder_for(page.work_dir, logs);
    if (folder.empty()) {
      ::dprintf(options_.err,
                "lockstep run: the page of this job is not kept: its ranks have reported no folder; with "
                "--log-dir it stays there\n");
      return;
    }
    // Launchers of one job may share the folder.
    const auto file = folder / (first_rank_ == 0 ? "dashboard.html" : fmt::format("dashboard_{}.html", first_rank_));
    ::dprintf(options_.err, "lockstep run: %s\n", dashboard::keep_page(page, file).c_str());
  }

 private:
  dashboard::PageServerOptions server_options() {
    dashboard::PageServerOptions server;
    server.address = options_.page->address;
    if (options_.page->can_kill) {
      server.kill = [this](const dashboard::KillRequest& request) {
        if (!requests_.put(request)) server_.answer(request, false, "too many such requests are waiting");
      };
    }
    return server;
  }

  const LaunchOptions& options_;
  KillRequests requests_;
  int first_rank_ = 0;
  dashboard::PageServer server_;
};

LivePage::LivePage(const LaunchOptions& options, bool shares_job)
    : state_(std::make_unique<State>(options, shares_job)) {}
LivePage::~LivePage() = default;
Watching LivePage::watch(int round) { return state_->watch(round); }
void LivePage::end(const LaunchResult& result, const LogFolder& logs) { state_->end(result, logs); }

std::function<Watching(const Launch&)> watch_with_page(const LaunchOptions& options) {
  if (!options.page) return {};
  return [&options](const Launch& job) {
    auto page = std::make_shared<LivePage>(options, world_size_of(job) > job.ranks);
    auto watching = page->watch(1);
    watching.ended = [page](const LaunchResult& result, const LogFolder& logs) { page->end(result, logs); };
    return watching;
  };
}

}  // namespace lockstep::cluster

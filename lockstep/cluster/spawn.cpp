// lockstep::spawn: forks of this process that run a function, their supervision, and the first failure thrown; and the
// arguments --nprocs, --world_size, --rank and --init_method out of a program's own command line.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/processes/ending.h>
#include <lockstep/cluster/processes/event_loop.h>
#include <lockstep/cluster/processes/forked_child.h>
#include <lockstep/cluster/rank_start.h>
#include <lockstep/cluster/spawn.h>
#include <lockstep/world/start.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <optional>
#include <string_view>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using cluster::Ending;
using cluster::ForkedChild;
using std::chrono::milliseconds;

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::invalid_argument, "spawn", format, std::forward<Args>(args)...);
}

void check(const std::function<void(int)>& fn, int nprocs, const SpawnOptions& options) {
  if (!fn) refuse("there is no function to run");
  if (nprocs < 1) refuse("nprocs is {}; there is at least 1 process", nprocs);
  if (options.nodes < 1) refuse("nodes is {}; there is at least 1 node", options.nodes);
  if (options.node_rank < 0 || options.node_rank >= options.nodes) {
    refuse("node_rank {} must be from 0 to {}, as there are {} nodes", options.node_rank, options.nodes - 1,
           options.nodes);
  }
  if (options.nodes > 1 && options.init_method.empty()) {
    refuse("{} nodes need an init_method, such as tcp://HOST:PORT with the address of node 0", options.nodes);
  }
}

/// Warns where each rank of a job is about to start a job of its own.
void warn_of_launcher(int nprocs, const SpawnOptions& options) {
  if (options.nodes > 1) return;
  try {
    const World world = detect_world(current_environment());
    if (world.size == 1) return;
    log_warning(
        "spawn: this process is rank {} of {} (launcher: {}), and each of these starts {} processes of a job of its "
        "own; "
        "start the program without a launcher, or call the function without spawn",
        world.rank, world.size, world.launcher, nprocs);
  } catch (const Error&) {
    // The variables of a launcher are incomplete. The children do not read them.
  }
}

/// The variables for a child that calls lockstep::init().
std::map<std::string, std::optional<std::string>> variables_of(int index, int nprocs, const SpawnOptions& options,
                                                               const std::filesystem::path& folder) {
  const std::string method =
      options.init_method.empty() ? "file://" + (folder / "store").string() : options.init_method;
  return {
      {"RANK", std::to_string(options.node_rank * nprocs + index)},
      {"WORLD_SIZE", std::to_string(options.nodes * nprocs)},
      {"LOCAL_RANK", std::to_string(index)},
      {"LOCAL_WORLD_SIZE", std::to_string(nprocs)},
      {"LOCKSTEP_INIT_METHOD", method},
      {"LOCKSTEP_STARTED_INSIDE", fmt::format("{}", fmt::join(launchers_here(current_environment()), ","))},
      // Set by a launcher around this process.
      {"TORCHELASTIC_USE_AGENT_STORE", std::nullopt},
      {"TORCHELASTIC_RESTART_COUNT", std::nullopt},
  };
}

std::optional<ErrorKind> kind_named(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(ErrorKind::numeric); ++i) {
    if (name(static_cast<ErrorKind>(i)) == text) return static_cast<ErrorKind>(i);
  }
  return std::nullopt;
}

[[noreturn]] void fail_with(const cluster::RankEnd& end, int nprocs) {
  const std::string who = fmt::format("process {} of {} (pid {})", end.rank, nprocs, end.pid);
  if (end.note) {
    fail(kind_named(end.note->kind).value_or(ErrorKind::peer_lost), "spawn", "{} failed: {}", who, end.note->message);
  }
  fail(ErrorKind::peer_lost, "spawn", "{} ended with {} and reported no reason", who, describe(end.status));
}

constexpr const char* kWhere = "spawn_arguments";
constexpr int kMost = 1 << 20;

int number(std::string_view name, std::string_view text, int least) {
  const auto value = parse_integer(text);
  if (!value || *value < least || *value > kMost) {
    fail(ErrorKind::invalid_argument, kWhere, "{} needs a whole number from {} to {}, not \"{}\"", name, least, kMost,
         text);
  }
  return static_cast<int>(*value);
}

void check(const SpawnOptions& options) {
  if (options.node_rank >= options.nodes) {
    fail(ErrorKind::invalid_argument, kWhere, "--rank {} is not below --world_size {}; nodes are numbered from 0",
         options.node_rank, options.nodes);
  }
  if (options.nodes > 1 && options.init_method.empty()) {
    fail(ErrorKind::invalid_argument, kWhere,
         "--world_size {} needs --init_method, the rendezvous of the nodes, e.g. tcp://ADDRESS_OF_NODE_0:6060",
         options.nodes);
  }
}

}  // namespace

class SpawnedProcesses::Impl {
 public:
  Impl(const std::function<void(int)>& fn, int nprocs, const SpawnOptions& options)
      : nprocs_(nprocs), folder_("lockstep-spawn"), ending_({.grace = options.grace}) {
    std::optional<cluster::OneThreadEach> one_thread;
    const bool limited = cluster::limits_threads(current_environment(), nprocs);
    if (limited) one_thread.emplace();
    cluster::require_single_thread();
    for (int index = 0; index < nprocs; ++index) {
      cluster::ChildTask task;
      task.body = [&fn, index] { fn(index); };
      task.variables = variables_of(index, nprocs, options, folder_.path());
      task.error_file = folder_.path() / fmt::format("{}.error.json", index);
      task.variables.emplace("TORCHELASTIC_ERROR_FILE", task.error_file.string());
      if (limited) task.variables.emplace("OMP_NUM_THREADS", "1");
      children_.emplace_back(index, task, lifeline_);
    }
  }

  std::vector<pid_t> pids() const {
    std::vector<pid_t> pids;
    for (const auto& child : children_) pids.push_back(child.pid());
    return pids;
  }

  bool join(milliseconds limit, cluster::SignalInbox* signals) {
    const auto start = Clock::now();
    while (any_running() && !ending_.gave_up()) {
      const auto waited = std::chrono::floor<milliseconds>(Clock::now() - start);
      if (!failed() && waited >= limit) return false;
      wait_for_events(failed() ? kLook : std::min(kLook, limit - waited), signals);
    }
    throw_failure();
    return true;
  }

  std::optional<int> interrupted_by() const { return ending_.interrupted_by(); }

 private:
  static constexpr milliseconds kLook{5000};

  bool any_running() const {
    return std::any_of(children_.begin(), children_.end(), [](const auto& child) { return child.running(); });
  }
  bool failed() const { return first_failed_; }

  void wait_for_events(milliseconds limit, cluster::SignalInbox* signals) {
    cluster::Poller poller;
    if (signals != nullptr) {
      poller.add(signals->fd(), POLLIN, [&] {
        while (const auto signal = signals->take()) tell(ending_.user_signal(*signal, Clock::now()));
      });
    }
    for (auto& child : children_) {
      if (child.running()) poller.add(child.end_fd(), POLLIN, [this, &child] { look_for_end(child); });
    }
    if (const auto deadline = ending_.deadline()) {
      limit = std::clamp(std::chrono::ceil<milliseconds>(*deadline - Clock::now()), milliseconds(0), limit);
    }
    poller.wait(limit);
    tell(ending_.tick(Clock::now()));
  }

  void look_for_end(ForkedChild& child) {
    child.look_for_end();
    if (child.end().status.ok()) return;
    first_failed_ = true;
    ending_.rank_failed(Clock::now());
  }

  void tell(std::optional<int> signal) {
    if (!signal) return;
    for (auto& child : children_) child.signal(*signal);
  }

  void throw_failure() const {
    if (ending_.interrupted_by()) return;
    std::vector<cluster::RankEnd> ends;
    for (const auto& child : children_) ends.push_back(child.end());
    if (const auto first = cluster::first_failure(ends)) fail_with(ends[*first], nprocs_);
  }

  int nprocs_;
  TemporaryFolder folder_;
  std::unique_ptr<cluster::Lifeline> lifeline_ = std::make_unique<cluster::Lifeline>();
  Ending ending_;
  bool first_failed_ = false;
  std::deque<ForkedChild> children_;
};

SpawnedProcesses::SpawnedProcesses(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SpawnedProcesses::SpawnedProcesses(SpawnedProcesses&&) noexcept = default;
SpawnedProcesses& SpawnedProcesses::operator=(SpawnedProcesses&&) noexcept = default;
SpawnedProcesses::~SpawnedProcesses() = default;

std::vector<pid_t> SpawnedProcesses::pids() const { return impl_->pids(); }

bool SpawnedProcesses::join(milliseconds limit) { return impl_->join(limit, nullptr); }

SpawnedProcesses start_processes(const std::function<void(int)>& fn, int nprocs, const SpawnOptions& options) {
  check(fn, nprocs, options);
  warn_of_launcher(nprocs, options);
  return SpawnedProcesses(std::make_unique<SpawnedProcesses::Impl>(fn, nprocs, options));
}

void spawn(const std::function<void(int)>& fn, int nprocs, const SpawnOptions& options) {
  std::optional<int> interrupted_by;
  {
    // The children and their folder are removed before the signal takes effect here.
    auto processes = start_processes(fn, nprocs, options);
    cluster::SignalInbox signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
    processes.impl_->join(milliseconds::max(), &signals);
    interrupted_by = processes.impl_->interrupted_by();
  }
  if (!interrupted_by) return;
  ::raise(*interrupted_by);  // raises in this process the signal that the children got
  fail(ErrorKind::peer_lost, "spawn", "{} ended the {} processes", signal_name(*interrupted_by), nprocs);
}

SpawnArguments spawn_arguments(int argc, const char* const* argv) {
  SpawnArguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto equals = word.find('=');
    std::string name(word.substr(0, equals));
    std::replace(name.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, name.size())), name.end(), '-',
                 '_');
    const bool known = name == "--nprocs" || name == "--nproc_per_node" || name == "--world_size" || name == "--rank" ||
                       name == "--init_method";
    if (!known) {
      arguments.rest.emplace_back(word);
      continue;
    }
    if (equals == std::string_view::npos && i + 1 == argc) {
      fail(ErrorKind::invalid_argument, kWhere, "{} is the last argument; its value is missing", word);
    }
    const std::string_view value = equals == std::string_view::npos ? argv[++i] : word.substr(equals + 1);
    if (name == "--world_size") {
      arguments.options.nodes = number(name, value, 1);
    } else if (name == "--rank") {
      arguments.options.node_rank = number(name, value, 0);
    } else if (name == "--init_method") {
      arguments.options.init_method = value;
    } else {
      arguments.nprocs = number(name, value, 1);
    }
  }
  check(arguments.options);
  return arguments;
}

}  // namespace lockstep

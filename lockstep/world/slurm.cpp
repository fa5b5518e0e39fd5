// Detection of a step of Slurm's srun. The variables of the step have priority over those of the job, which may be
// larger.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/launcher_variables.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::size_t kMostEntries = 65536;

using HostNames = std::vector<std::string>;

bool all_digits(std::string_view text) {
  constexpr std::size_t kLongest = 9;
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Calls `part` for each piece between commas outside brackets; false as soon as it returns false.
template <typename Part>
bool for_each_part(std::string_view text, Part part) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c != ',' || (depth != 0 && i < text.size())) continue;
    if (!part(text.substr(begin, i - begin))) return false;
    begin = i + 1;
  }
  return true;
}

// "01-03" or "7"; the width of the lower bound is kept.
bool expand_range(std::string_view range, HostNames& numbers) {
  const auto dash = range.find('-');
  const auto low_text = range.substr(0, dash);
  const auto high_text = dash == std::string_view::npos ? low_text : range.substr(dash + 1);
  if (!all_digits(low_text) || !all_digits(high_text)) return false;
  const auto low = *parse_integer(low_text);
  const auto high = *parse_integer(high_text);
  if (low > high || high - low >= static_cast<std::int64_t>(kMostEntries)) return false;
  for (auto n = low; n <= high; ++n) numbers.push_back(fmt::format("{:0{}}", n, low_text.size()));
  return numbers.size() <= kMostEntries;
}

// One name with its brackets: "n[1-2]x[3,5]".
bool expand_name(std::string_view text, HostNames& hosts) {
  HostNames names = {""};
  while (!text.empty()) {
    const auto open = text.find('[');
    for (auto& name : names) name += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = text.find(']', open);
    if (close == std::string_view::npos) return false;
    HostNames numbers;
    const bool valid = for_each_part(text.substr(open + 1, close - open - 1),
                                     [&](std::string_view range) { return expand_range(range, numbers); });
    if (!valid || names.size() * numbers.size() > kMostEntries) return false;
    HostNames longer;
    for (const auto& name : names) {
      for (const auto& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    text.remove_prefix(close + 1);
  }
  if (names.front().empty() || names.front().find_first_of("[] ") != std::string::npos) return false;
  hosts.insert(hosts.end(), names.begin(), names.end());
  return hosts.size() <= kMostEntries;
}

// "8(x2)" or "4".
bool expand_count(std::string_view text, std::vector<int>& counts) {
  std::int64_t times = 1;
  if (const auto open = text.find("(x"); open != std::string_view::npos) {
    if (text.back() != ')') return false;
    const auto times_text = text.substr(open + 2, text.size() - open - 3);
    if (!all_digits(times_text)) return false;
    times = *parse_integer(times_text);
    text = text.substr(0, open);
  }
  if (!all_digits(text) || times < 1 || counts.size() + static_cast<std::size_t>(times) > kMostEntries) return false;
  counts.insert(counts.end(), static_cast<std::size_t>(times), static_cast<int>(*parse_integer(text)));
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> expand_host_list(std::string_view text) {
  HostNames hosts;
  if (!for_each_part(text, [&](std::string_view name) { return expand_name(name, hosts); })) return std::nullopt;
  return hosts;
}

std::optional<std::vector<int>> expand_tasks_per_node(std::string_view text) {
  std::vector<int> counts;
  if (!for_each_part(text, [&](std::string_view part) { return expand_count(part, counts); })) return std::nullopt;
  return counts;
}

namespace {

constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

struct Variable {
  std::string_view name;
  std::string value;
};

// The first of `names` that is set.
std::optional<Variable> find_first(const Environment& environment, std::span<const std::string_view> names) {
  for (const auto name : names) {
    if (auto value = find(environment, name)) return Variable{name, std::move(*value)};
  }
  return std::nullopt;
}

int tasks_of_node(const Environment& environment, std::int64_t node, const World& world) {
  constexpr std::array<std::string_view, 2> kNames = {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"};
  const auto variable = find_first(environment, kNames);
  if (!variable) {
    fail(ErrorKind::environment, "world", "{}, but neither {} nor {} is set; start the program with srun",
         world.evidence, kNames[0], kNames[1]);
  }
  const auto tasks = expand_tasks_per_node(variable->value);
  if (!tasks || node >= static_cast<std::int64_t>(tasks->size()) ||
      std::accumulate(tasks->begin(), tasks->end(), std::int64_t{0}) != world.size) {
    fail(ErrorKind::environment, "world",
         "{}='{}' does not fit {} on node SLURM_NODEID={}; it must list the tasks of each node, e.g. 8(x2),4",
         variable->name, cut_text(variable->value), world.evidence, node);
  }
  return (*tasks)[static_cast<std::size_t>(node)];
}

void read_local_of_step(const Environment& environment, World& world) {
  constexpr auto kLargest = std::numeric_limits<int>::max();
  const auto local_rank = find_integer(environment, "SLURM_LOCALID", 0, kLargest);
  const auto node = find_integer(environment, "SLURM_NODEID", 0, kLargest);
  if (!local_rank || !node) {
    fail(ErrorKind::environment, "world", "{} is set, but {} is not; srun sets both", world.evidence,
         local_rank ? "SLURM_NODEID" : "SLURM_LOCALID");
  }
  const int local_size = tasks_of_node(environment, *node, world);
  if (*local_rank >= local_size) {
    fail(ErrorKind::environment, "world", "SLURM_LOCALID={} is not below the {} tasks of node SLURM_NODEID={}",
         *local_rank, local_size, *node);
  }
  world.local_rank = static_cast<int>(*local_rank);
  world.local_size = local_size;
}

std::optional<std::int64_t> find_step(const Environment& environment) {
  for (const auto* name : {"SLURM_STEP_ID", "SLURM_STEPID"}) {
    if (const auto id = find_integer(environment, name, 0, kHighest)) return id;
  }
  return std::nullopt;
}

std::int64_t job_of(const Environment& environment, const World& world) {
  for (const auto* name : {"SLURM_JOB_ID", "SLURM_JOBID"}) {
    if (const auto id = find_integer(environment, name, 0, kHighest)) return *id;
  }
  fail(ErrorKind::environment, "world", "{}, but SLURM_JOB_ID is not set; start the program with srun", world.evidence);
}

// Error(environment) when rank 0 is not on the first host, which only --distribution=arbitrary can cause: the list of
// hosts is sorted, whatever order was requested. SLURM_GTIDS are the ranks of this node, so only some nodes can detect
// it.
void check_rank_0_is_on_first_host(const Environment& environment, const World& world) {
  const bool on_first = find_integer(environment, "SLURM_NODEID", 0, kHighest).value_or(0) == 0;
  const auto ranks = find(environment, "SLURM_GTIDS");
  const bool with_rank_0 = world.rank == 0 || (ranks ? *ranks == "0" || ranks->starts_with("0,") : on_first);
  if (with_rank_0 == on_first) return;
  fail(ErrorKind::environment, "world",
       "{}: the rendezvous is on the first host of the step's node list, but rank 0 is {}; set MASTER_ADDR to the "
       "host of rank 0, or leave --distribution=arbitrary out",
       world.evidence, with_rank_0 ? "on this other one" : "on another one");
}

std::string first_host(const Environment& environment, const World& world) {
  constexpr std::array<std::string_view, 3> kNames = {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"};
  const auto variable = find_first(environment, kNames);
  if (!variable) {
    fail(ErrorKind::environment, "world", "{}, but neither MASTER_ADDR nor {} is set; start the program with srun",
         world.evidence, kNames[0]);
  }
  const auto hosts = expand_host_list(variable->value);
  if (!hosts) {
    fail(ErrorKind::environment, "world",
         "{}='{}' is no list of hosts such as n[1-3,7]; set MASTER_ADDR to the host of rank 0", variable->name,
         cut_text(variable->value));
  }
  check_rank_0_is_on_first_host(environment, world);
  return hosts->front();
}

void meet_at_first_host(const Environment& environment, World& world) {
  if (world.size == 1) return;
  if (meet_by_init_method(environment, world)) return;
  const auto address = find_master_addr(environment);
  const auto port = find_master_port(environment);
  const auto job = job_of(environment, world);
  const auto step = find_step(environment).value_or(0);
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = address ? *address : first_host(environment, world);
  world.master_port = port ? *port : port_of_slurm_step(job, step);
  // The prefix separates jobs: a rank that connects to the port of another job, because both jobs use the same port, is
  // not counted as a rank of that job.
  world.store_prefix = fmt::format("/slurm/{}.{}", job, step);
  add_evidence(world, "step", fmt::format("{}.{}", job, step));
  add_master(world);
}

}  // namespace

bool is_slurm_step(const Environment& environment) {
  // Larger step ids are special steps, such as the shells of sbatch and salloc.
  constexpr std::int64_t kFirstSpecialStep = 0xfffffff0;
  return find_step(environment).value_or(kFirstSpecialStep) < kFirstSpecialStep;
}

std::uint16_t port_of_slurm_step(std::int64_t job, std::int64_t step) {
  constexpr std::int64_t kLowest = 20480;
  constexpr std::int64_t kPorts = 8192;
  constexpr std::int64_t kJobs = 512;
  return static_cast<std::uint16_t>(kLowest + (job % kPorts + step % kPorts * kJobs) % kPorts);
}

std::optional<World> detect_slurm(const Environment& environment) {
  if (!find(environment, "SLURM_PROCID") || !is_slurm_step(environment)) return std::nullopt;
  const bool has_step_size = find(environment, "SLURM_STEP_NUM_TASKS").has_value();
  const RankVariables names = {"SLURM_PROCID", has_step_size ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", "", ""};
  auto world = read_rank_and_size(environment, names);
  world->launcher = "slurm";
  read_local_of_step(environment, *world);
  meet_at_first_host(environment, *world);
  return world;
}

}  // namespace lockstep::detail

// A rank's variables: torchrun's identity, defaults for threads and malloc, and Lockstep's store, service and files;
// and the words of its command: Python before scripts and modules, --local-rank, and ${local_rank} replaced.
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/cluster/flag_values.h>
#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/rank_start.h>
#include <lockstep/world/start.h>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep::cluster {
namespace {

/// A setting for glibc's malloc: keep freed memory for the next step, and back it with huge pages. A training step
/// frees and allocates the same hundreds of megabytes again and again; returning them to the kernel would cost time.
constexpr const char* kKeepMemory =
    "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=17179869184:glibc.malloc.hugetlb=1";

constexpr const char* kService = "LOCKSTEP_JOB_SERVICE";
constexpr const char* kServiceSecret = "LOCKSTEP_JOB_SERVICE_SECRET";
constexpr const char* kServiceTurn = "LOCKSTEP_JOB_SERVICE_TURN";
constexpr const char* kSessionFile = "LOCKSTEP_SESSION_FILE";

/// Sets defaults, which a user's own settings override. Python buffers its output to a pipe; torchrun passes -u for
/// that.
void set_defaults(Environment& environment, int ranks) {
  if (limits_threads(environment, ranks)) environment.try_emplace("OMP_NUM_THREADS", "1");
  environment.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  environment.try_emplace("PYTHONUNBUFFERED", "1");
  environment.try_emplace("GLIBC_TUNABLES", kKeepMemory);
}

/// The numbers of a rank, and its rendezvous.
Environment identity_of_rank(const Launch& job, int local_rank) {
  const std::string rank = std::to_string(job.first_rank + local_rank);
  const std::string size = std::to_string(world_size_of(job));
  return {
      {"RANK", rank},
      {"LOCAL_RANK", std::to_string(local_rank)},
      {"GROUP_RANK", std::to_string(job.nodes > 0 ? job.node : job.first_rank / job.ranks)},
      {"ROLE_RANK", rank},
      {"ROLE_NAME", job.role},
      {"WORLD_SIZE", size},
      {"LOCAL_WORLD_SIZE", std::to_string(job.ranks)},
      {"GROUP_WORLD_SIZE", std::to_string(job.nodes > 0 ? job.nodes : world_size_of(job) / job.ranks)},
      {"ROLE_WORLD_SIZE", size},
      {"MASTER_ADDR", job.master_addr},
      {"MASTER_PORT", std::to_string(job.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(job.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(job.max_restarts)},
      {"TORCHELASTIC_RUN_ID", job.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", job.hosts_store ? "True" : "False"},
      {"TORCHELASTIC_ERROR_FILE", error_file_of(job, local_rank).string()},
      {"LOCKSTEP_STATUS_FILE", status_file_of(job, local_rank).string()},
  };
}

/// Makes one GPU visible to a rank, as its first.
void see_one_device(Environment& environment, int local_rank) {
  std::string device = std::to_string(local_rank);
  if (const auto given = find(environment, "CUDA_VISIBLE_DEVICES"); given && !given->empty()) {
    const auto devices = split_at_commas(*given);
    if (local_rank < std::ssize(devices)) device = devices[static_cast<std::size_t>(local_rank)];
  }
  environment["CUDA_VISIBLE_DEVICES"] = device;
  environment["LOCAL_RANK"] = "0";
}

ChildOptions prepare(const LaunchOptions& options, const Launch& job, int local_rank, Environment environment) {
  ChildOptions child;
  child.out = child.err = ChildStream::pipe;
  child.environment = std::move(environment);
  child.arguments = command_of_rank(options.program, local_rank, options.environment);
  const auto folder = folder_of_rank(job, local_rank);
  if (!folder.empty()) make_empty_folder(folder);
  return child;
}

}  // namespace

std::filesystem::path folder_of_rank(const Launch& job, int local_rank) {
  return job.folder.empty() ? job.folder : job.folder / std::to_string(local_rank);
}

std::filesystem::path error_file_of(const Launch& job, int local_rank) {
  return job.folder.empty() ? job.folder : folder_of_rank(job, local_rank) / "error.json";
}

std::filesystem::path status_file_of(const Launch& job, int local_rank) {
  return job.folder.empty() ? job.folder : folder_of_rank(job, local_rank) / "status";
}

std::filesystem::path session_file_of(const Launch& job, int local_rank) {
  return job.folder.empty() ? job.folder : folder_of_rank(job, local_rank) / "session";
}

int world_size_of(const Launch& job) { return job.world_size > 0 ? job.world_size : job.ranks; }

bool limits_threads(const Environment& inherited, int ranks) {
  return ranks > 1 && !inherited.contains("OMP_NUM_THREADS");
}

Environment environment_of_rank(Environment inherited, const Launch& job, int local_rank) {
  set_defaults(inherited, job.ranks);
  // A launcher that is not on this list was started by a rank, which is a mistake.
  inherited["LOCKSTEP_STARTED_INSIDE"] = fmt::format("{}", fmt::join(launchers_here(inherited), ","));
  for (const auto& [name, value] : identity_of_rank(job, local_rank)) inherited[name] = value;
  if (job.virtual_local_rank) see_one_device(inherited, local_rank);
  inherited.erase("LOCKSTEP_STORE");  // set by an outer launcher
  if (!job.own_store.place.empty()) {
    inherited["LOCKSTEP_STORE"] = job.own_store.place;
    inherited["LOCKSTEP_STORE_SECRET"] = job.own_store.secret;
  }
  // A value that was set for the launcher is already in the job's rendezvous.
  if (!job.hosts_store) inherited.erase("LOCKSTEP_INIT_METHOD");
  for (const auto* name : {kService, kServiceSecret, kServiceTurn, kSessionFile})
    inherited.erase(name);  // set by an outer launcher
  if (job.service) {
    const auto* const scheme = job.service->encrypted ? "tls://" : "";
    inherited[kService] = scheme + host_and_port(job.service->host, job.service->port);
    inherited[kServiceSecret] = job.service->secret;
    if (job.turn > 0) inherited[kServiceTurn] = std::to_string(job.turn);
    inherited[kSessionFile] = session_file_of(job, local_rank).string();
  }
  if (!job.store_path.empty()) inherited["LOCKSTEP_INIT_METHOD"] = "file://" + job.store_path;

  // A rank behind the launcher's pipe cannot detect a terminal on which to draw a progress bar.
  if (job.columns > 0) inherited.try_emplace("LOCKSTEP_TERMINAL_COLUMNS", std::to_string(job.columns));
  return inherited;
}

Environment environment_of_replacement(Environment inherited, const Launch& job, int local_rank) {
  inherited.erase("LOCKSTEP_FAULT");
  return environment_of_rank(std::move(inherited), job, local_rank);
}

Environment environment_to_load_in(Environment inherited, int ranks) {
  set_defaults(inherited, ranks);
  Launch job;
  job.ranks = ranks;
  const std::string unknown(1, '?');
  for (const auto& [name, value] : identity_of_rank(job, 0)) inherited[name] = unknown;
  return inherited;
}

ChildOptions prepare_rank(const LaunchOptions& options, const Launch& job, int local_rank) {
  return prepare(options, job, local_rank, environment_of_rank(options.environment, job, local_rank));
}

ChildOptions prepare_replacement(const LaunchOptions& options, const Launch& job, int local_rank) {
  return prepare(options, job, local_rank, environment_of_replacement(options.environment, job, local_rank));
}

std::vector<ChildOptions> prepare_ranks(const LaunchOptions& options, const Launch& job) {
  std::vector<ChildOptions> ranks;
  for (int local_rank = 0; local_rank < job.ranks; ++local_rank) {
    ranks.push_back(prepare_rank(options, job, local_rank));
  }
  return ranks;
}

namespace {

bool needs_python(const std::string& program) {
  return program.ends_with(".py") && ::access(program.c_str(), R_OK) == 0 && ::access(program.c_str(), X_OK) != 0;
}

/// The words before the program's name.
std::vector<std::string> interpreter_of(const RankProgram& program, const Environment& environment) {
  const bool detected = program.kind == ProgramKind::detect && needs_python(program.command.front());
  if (program.kind == ProgramKind::executable || (program.kind == ProgramKind::detect && !detected)) return {};
  std::vector<std::string> words = {find(environment, "PYTHON_EXEC").value_or("python3"), "-u"};
  if (program.kind == ProgramKind::module) words.emplace_back("-m");
  return words;
}

/// "#!/usr/bin/env python3", for example.
bool names_python_first(const std::string& program) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(program, ignored)) return false;
  std::ifstream file(program);
  std::array<char, 128> first{};
  file.read(first.data(), first.size());
  const std::string_view text(first.data(), static_cast<std::size_t>(file.gcount()));
  return text.starts_with("#!") && text.substr(0, text.find('\n')).find("python") != std::string_view::npos;
}

}  // namespace

std::string replace_macros(std::string_view text, const Macros& macros) {
  std::string result;
  while (true) {
    const auto start = text.find("${");
    const auto end = start == std::string_view::npos ? start : text.find('}', start);
    if (end == std::string_view::npos) return result.append(text);
    const auto macro = macros.find(text.substr(start + 2, end - start - 2));
    if (macro == macros.end()) {
      result.append(text.substr(0, start + 2));
      text.remove_prefix(start + 2);
      continue;
    }
    result.append(text.substr(0, start)).append(macro->second);
    text.remove_prefix(end + 1);
  }
}

bool is_python(const RankProgram& program, const Environment& environment) {
  if (program.kind == ProgramKind::module || program.kind == ProgramKind::script) return true;
  const std::string& name = program.command.front();
  if (name.ends_with(".py")) return true;
  try {
    return names_python_first(lockstep::detail::find_program(name, environment));
  } catch (const Error&) {
    return false;  // no such program; the start reports the error
  }
}

std::vector<std::string> command_of_rank(const RankProgram& program, int local_rank, const Environment& environment) {
  if (program.command.empty()) fail(ErrorKind::invalid_argument, "launch", "no program to run");
  const Macros macros = {{"local_rank", std::to_string(local_rank)}};
  std::vector<std::string> words = interpreter_of(program, environment);
  words.push_back(program.command.front());
  if (!program.local_rank_option.empty()) {
    words.push_back(fmt::format("--{}={}", program.local_rank_option, local_rank));
  }
  for (std::size_t i = 1; i < program.command.size(); ++i) words.push_back(replace_macros(program.command[i], macros));
  return words;
}

}  // namespace lockstep::cluster

// The fork and exec of a child: all memory is allocated before fork, and a pipe that exec closes reports failures.
#include <lockstep/base/error.h>
#include <lockstep/base/process.h>
#include <lockstep/base/text.h>
#include <lockstep/base/threads.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep::detail {
namespace {

// The step at which the child failed, reported to the parent through a close-on-exec pipe.
enum class SpawnStep : int { parent_died, enter_folder, streams, exec };

struct SpawnFailure {
  SpawnStep step;
  int error;
};

// All data that needs memory, allocated before fork: the child of a process with threads must not allocate.
struct SpawnPlan {
  std::string program;
  std::vector<std::string> environment_text;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::string folder;
  UniqueFd null;
  int out = -1;
  int err = -1;
  std::vector<int> kept;
  int report = -1;
  bool dies_with_parent = true;
  pid_t parent = -1;
};

std::string system_message(int error) { return std::generic_category().message(error); }

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// From here to `run_child` the code runs in the child and may call async-signal-safe functions only.
[[noreturn]] void report(const SpawnPlan& plan, SpawnStep step) {
  const SpawnFailure failure{step, errno};
  [[maybe_unused]] const ssize_t written = ::write(plan.report, &failure, sizeof failure);
  ::_exit(127);
}

void place(const SpawnPlan& plan, int fd, int target) {
  if (fd >= 0 && ::dup2(fd, target) < 0) report(plan, SpawnStep::streams);  // below 0: inherited
}

[[noreturn]] void run_child(const SpawnPlan& plan) {
  ::setpgid(0, 0);
  if (plan.dies_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) report(plan, SpawnStep::parent_died);  // the parent died before prctl took effect
  }
  if (!plan.folder.empty() && ::chdir(plan.folder.c_str()) != 0) report(plan, SpawnStep::enter_folder);
  place(plan, plan.null.get(), STDIN_FILENO);
  place(plan, plan.out, STDOUT_FILENO);
  place(plan, plan.err, STDERR_FILENO);
  for (const int fd : plan.kept) {
    if (::fcntl(fd, F_SETFD, 0) != 0) report(plan, SpawnStep::streams);
  }
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &by_default, nullptr);
  ::sigaction(SIGXFSZ, &by_default, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(plan.program.c_str(), plan.arguments.data(), plan.environment.data());
  report(plan, SpawnStep::exec);
}

// With all signals blocked, so that no handler of the parent runs in the child.
pid_t fork_child(const SpawnPlan& plan) {
  pid_t pid = 0;
  int error = 0;
  {
    const SignalsBlocked blocked;
    pid = ::fork();
    error = errno;
    if (pid == 0) run_child(plan);
  }
  if (pid < 0) fail(ErrorKind::io, "process", "cannot start a process: {}", system_message(error));
  ::setpgid(pid, pid);  // called in parent and child, so that the group exists for both of them from here on
  return pid;
}

// The error kind of a failed exec: a wrong program name, or missing resources.
ErrorKind kind_of_exec(int error) {
  const bool is_no_program =
      error == ENOENT || error == EACCES || error == ENOEXEC || error == ENOTDIR || error == ELOOP;
  return is_no_program ? ErrorKind::invalid_argument : ErrorKind::io;
}

[[noreturn]] void fail_to_start(const ChildOptions& options, const SpawnPlan& plan, const SpawnFailure& failure) {
  const std::string why = system_message(failure.error);
  switch (failure.step) {
    case SpawnStep::parent_died: fail(ErrorKind::io, "process", "the parent ended while {} was started", plan.program);
    case SpawnStep::enter_folder:
      fail(ErrorKind::io, "process", "cannot start {} in {}: {}", plan.program, options.working_directory.string(),
           why);
    case SpawnStep::streams: fail(ErrorKind::io, "process", "cannot connect the streams of {}: {}", plan.program, why);
    case SpawnStep::exec: fail(kind_of_exec(failure.error), "process", "cannot run {}: {}", plan.program, why);
  }
  fail(ErrorKind::io, "process", "cannot run {}", plan.program);
}

UniqueFd open_null() {
  UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!fd) fail(ErrorKind::io, "process", "cannot open /dev/null: {}", system_message(errno));
  return above_standard_streams(std::move(fd));
}

// The fd for one of the child's streams; -1 to inherit. `mine` and `theirs` get the ends of a pipe.
int prepare_stream(ChildStream kind, const UniqueFd& null, UniqueFd& mine, UniqueFd& theirs) {
  switch (kind) {
    case ChildStream::inherit: return -1;
    case ChildStream::discard: return null.get();
    case ChildStream::pipe: {
      Pipe pipe = make_pipe();
      mine = std::move(pipe.read_end);
      theirs = std::move(pipe.write_end);
      return theirs.get();
    }
  }
  return -1;
}

}  // namespace

std::string find_program(const std::string& name, const Environment& environment) {
  if (name.find('/') != std::string::npos) return name;
  const std::string path = find(environment, "PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  std::string_view rest = path;
  while (true) {
    const auto colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    std::string candidate = folder.empty() ? name : std::string(folder) + "/" + name;
    std::error_code error;
    if (::access(candidate.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(candidate, error)) return candidate;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  std::error_code ignored;
  const bool is_here = std::filesystem::is_regular_file(name, ignored);
  fail(ErrorKind::invalid_argument, "process", "there is no program '{}' in PATH={}{}", cut_text(name),
       cut_text(path, 1000), is_here ? fmt::format("; the file of that name in this folder is ./{}", name) : "");
}

RunningChild spawn(const ChildOptions& options) {
  if (options.arguments.empty() || options.arguments.front().empty()) {
    fail(ErrorKind::invalid_argument, "process", "no program given");
  }
  const Environment environment = options.environment ? *options.environment : current_environment();
  std::vector<std::string> arguments = options.arguments;
  SpawnPlan plan;
  plan.program = find_program(arguments.front(), environment);
  plan.arguments = pointers(arguments);
  for (const auto& [name, value] : environment) plan.environment_text.push_back(fmt::format("{}={}", name, value));
  plan.environment = pointers(plan.environment_text);
  plan.folder = options.working_directory.string();
  plan.null = open_null();
  plan.kept = options.kept_descriptors;
  plan.dies_with_parent = options.dies_with_parent;
  plan.parent = ::getpid();

  RunningChild spawned;
  UniqueFd their_out;
  UniqueFd their_err;
  plan.out = prepare_stream(options.out, plan.null, spawned.out, their_out);
  plan.err = prepare_stream(options.err, plan.null, spawned.err, their_err);
  Pipe failures = make_pipe();
  plan.report = failures.write_end.get();

  spawned.pid = fork_child(plan);
  spawned.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, spawned.pid, 0)));
  const int pidfd_error = errno;
  failures.write_end.reset();
  SpawnFailure failure{};
  ssize_t count = 0;
  do {
    count = ::read(failures.read_end.get(), &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  if (count == 0 && spawned.pidfd) return spawned;  // the pipe was closed by exec: the program runs

  ::kill(-spawned.pid, SIGKILL);
  while (::waitpid(spawned.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (count == static_cast<ssize_t>(sizeof failure)) fail_to_start(options, plan, failure);
  fail(ErrorKind::io, "process", "cannot open a pidfd of process {}: {}", spawned.pid, system_message(pidfd_error));
}

}  // namespace lockstep::detail

#include "operator/kubelet/sandbox.h"

#include <fcntl.h>
#include <lockstep/base/error.h>
#include <lockstep/base/unique_fd.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <set>
#include <system_error>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

void expect(bool done, const std::string& what) {
  if (!done) fail(ErrorKind::io, "sandbox", "cannot {}: {}", what, std::generic_category().message(errno));
}

void write_text(const fs::path& file, const std::string& text, int flags = O_WRONLY) {
  const UniqueFd fd(::open(file.c_str(), flags | O_CLOEXEC, 0644));
  expect(fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
         "write " + file.string());
}

/// As root inside, whoever this is outside.
void enter_namespaces(const std::string& host_name) {
  const auto user = ::geteuid();
  const auto group = ::getegid();
  expect(::unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS) == 0, "make namespaces");
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", fmt::format("0 {} 1\n", user));
  write_text("/proc/self/gid_map", fmt::format("0 {} 1\n", group));
  expect(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "keep mounts private");
  expect(::sethostname(host_name.data(), host_name.size()) == 0, "set the host's name");
}

void mount_at(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (fs::is_directory(from, ignored)) {
    fs::create_directories(to);
  } else if (!fs::exists(to, ignored)) {
    fs::create_directories(to.parent_path());
    write_text(to, "", O_WRONLY | O_CREAT);
  }
  expect(::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0,
         fmt::format("mount {} at {}", from.string(), to.string()));
}

/// What is in a folder of this machine, but some names.
void bind_entries(const fs::path& from, const fs::path& to, const std::set<std::string>& but) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const auto name = entry.path().filename().string();
    if (but.contains(name)) continue;
    if (entry.is_symlink()) {
      fs::copy_symlink(entry.path(), to / name);
    } else {
      mount_at(entry.path(), to / name);
    }
  }
}

/// The machine's root, where /etc and /dev are folders of the container's own, so that it can have files there.
void make_root(const Sandbox& sandbox, const fs::path& root) {
  expect(::mount("none", root.c_str(), "tmpfs", 0, "mode=755") == 0, "mount a root folder");
  bind_entries("/", root, {"etc", "dev"});
  fs::create_directories(root / "dev");
  bind_entries("/dev", root / "dev", {});
  mount_at(sandbox.last_words, root / "dev" / "termination-log");
  mount_at("/etc", root / ".etc");
  fs::create_directories(root / "etc");
  for (const auto& entry : fs::directory_iterator("/etc")) {
    const auto name = entry.path().filename();
    if (name != "hosts" && name != "hostname") fs::create_symlink(fs::path("/.etc") / name, root / "etc" / name);
  }
  mount_at(sandbox.hosts, root / "etc" / "hosts");
  write_text(root / "etc" / "hostname", sandbox.host_name + "\n", O_WRONLY | O_CREAT);
  for (const Mount& mount : sandbox.mounts) mount_at(mount.from, root / fs::path(mount.to).relative_path());
}

}  // namespace

nlohmann::json to_json(const Sandbox& sandbox) {
  nlohmann::json made = {{"host_name", sandbox.host_name},    {"hosts", sandbox.hosts},
                         {"last_words", sandbox.last_words},  {"log", sandbox.log},
                         {"folder", sandbox.folder},          {"arguments", sandbox.arguments},
                         {"environment", sandbox.environment}};
  made["mounts"] = nlohmann::json::array();
  for (const Mount& mount : sandbox.mounts) made["mounts"].push_back({{"from", mount.from}, {"to", mount.to}});
  return made;
}

Sandbox sandbox_of(const nlohmann::json& text) {
  Sandbox sandbox;
  text.at("host_name").get_to(sandbox.host_name);
  text.at("hosts").get_to(sandbox.hosts);
  text.at("last_words").get_to(sandbox.last_words);
  text.at("log").get_to(sandbox.log);
  text.at("folder").get_to(sandbox.folder);
  text.at("arguments").get_to(sandbox.arguments);
  for (const auto& [name, value] : text.at("environment").items()) sandbox.environment[name] = value;
  for (const auto& mount : text.at("mounts")) sandbox.mounts.push_back({mount.at("from"), mount.at("to")});
  return sandbox;
}

void enter(const Sandbox& sandbox, const fs::path& root) {
  const UniqueFd log(::open(sandbox.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  expect(static_cast<bool>(log), "open " + sandbox.log);
  expect(::dup2(log.get(), STDOUT_FILENO) >= 0 && ::dup2(log.get(), STDERR_FILENO) >= 0, "redirect the output");
  const pid_t parent = ::getppid();
  enter_namespaces(sandbox.host_name);
  make_root(sandbox, root);
  expect(::chroot(root.c_str()) == 0, "enter the root folder");
  const std::string folder = sandbox.folder.empty() ? "/" : sandbox.folder;
  expect(::chdir(folder.c_str()) == 0, "enter the folder " + folder);
  // New credentials have cleared it.
  expect(::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent, "die with the kubelet");
  ::clearenv();
  for (const auto& [name, value] : sandbox.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> arguments = sandbox.arguments;
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  expect(false, "run " + arguments.front());
  std::abort();
}

std::string sandbox_obstacle() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS) == 0 ? 0 : 1);
  int status = 0;
  if (child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return "user and mount namespaces cannot be made here, which containers of the test kubelet need";
}

}  // namespace lockstep::test

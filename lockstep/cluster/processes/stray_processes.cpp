// A child subreaper: finds the orphans of ranks in /proc by their parent's id, signals them and reaps them.
#include <lockstep/base/text.h>
#include <lockstep/cluster/processes/stray_processes.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace lockstep::cluster {

Subreaper::Subreaper() {
  ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Subreaper::~Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }

pid_t parent_in_stat(std::string_view stat) {
  // The format is: pid (name) state ppid ...
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string_view::npos || stat.size() < name_end + 5) return 0;
  const std::string_view from_parent = stat.substr(name_end + 4);
  return static_cast<pid_t>(parse_integer(from_parent.substr(0, from_parent.find(' '))).value_or(0));
}

std::set<pid_t> children_of_this_process() {
  std::set<pid_t> children;
  std::error_code ignored;  // processes start and end during the listing
  for (std::filesystem::directory_iterator entry("/proc", ignored), end; entry != end; entry.increment(ignored)) {
    const auto pid = parse_integer(entry->path().filename().native());
    if (!pid) continue;
    std::ifstream file(entry->path() / "stat");
    std::string stat;
    // Reads all of it, or nothing when the process has just ended: an iterator would throw.
    std::getline(file, stat, '\0');
    if (parent_in_stat(stat) == ::getpid()) children.insert(static_cast<pid_t>(*pid));
  }
  return children;
}

StrayProcesses::StrayProcesses() : known_(children_of_this_process()) {}

std::vector<pid_t> StrayProcesses::running() {
  while (true) {
    std::vector<pid_t> running;
    bool reaped = false;
    for (const pid_t pid : children_of_this_process()) {
      if (known_.contains(pid)) continue;
      if (::waitpid(pid, nullptr, WNOHANG) == 0) {
        running.push_back(pid);
      } else {
        told_.erase(pid);
        reaped = true;
      }
    }
    if (!reaped) return running;  // its own children may have become children of this process after /proc was listed
  }
}

std::vector<pid_t> StrayProcesses::sweep(int signal) {
  std::vector<pid_t> strays = running();
  for (const pid_t pid : strays) {
    if (std::exchange(told_[pid], signal) != signal) ::kill(pid, signal);
  }
  return strays;
}

void StrayProcesses::reap() {
  siginfo_t ended{};
  const bool any = ::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0;
  if (any) running();  // looks at /proc only when some child has ended
}

}  // namespace lockstep::cluster

// A program to be a rank in tests of the launcher. Its arguments are done in order; "2:exit=3" is for rank 2 only,
// "2@1:exit=3" for rank 2 after one restart.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/failure.h>

#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

namespace {

int number(const std::string& text) { return static_cast<int>(lockstep::parse_integer(text).value()); }

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count <= 0) std::exit(99);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

/// A child that lives on in this process's group, or away from it in a session of its own with a parent that is gone.
void leave_behind(bool away) {
  if (::fork() != 0) return;
  if (away) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
  }
  while (true) ::pause();
}

void leave_note(lockstep::ErrorKind kind, const std::string& message) {
  lockstep::cluster::report_failure(lockstep::Error(kind, "test", message));
}

void print_environment(const std::string& name) {
  const auto value = lockstep::find(lockstep::current_environment(), name);
  write_all(1, name + "=" + value.value_or("(unset)") + "\n");
}

void print_all_variables() {
  for (const auto& [name, value] : lockstep::current_environment()) write_all(1, name + "=" + value + "\n");
}

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a process gets from whoever starts it, apart from words and variables.
void print_state() {
  const auto line = [](const std::string& name, const std::string& value) { write_all(1, name + ": " + value + "\n"); };
  std::istringstream status(text_of("/proc/self/status"));
  for (std::string text; std::getline(status, text);) {
    for (const auto* field :
         {"Name:", "Umask:", "Threads:", "SigPnd:", "SigBlk:", "SigIgn:", "SigCgt:", "NoNewPrivs:"}) {
      if (text.starts_with(field)) write_all(1, text + "\n");
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor of this very look
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && !target.ends_with("/fd"))
      line("descriptor", entry.path().filename().string() + " " + target.substr(0, target.find('[')));
  }
  int death_signal = 0;
  ::prctl(PR_GET_PDEATHSIG, &death_signal);
  line("dies with its parent by", std::to_string(death_signal));
  line("leads its group", ::getpgrp() == ::getpid() ? "yes" : "no");
  line("folder", std::filesystem::current_path().string());
}

/// 16 bytes that the kernel gives to a program that it executes: ranks that are forks have the same.
void print_execution() {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(::getauxval(AT_RANDOM));
  std::string text = "execution ";
  for (int i = 0; i < 16; ++i) text += std::to_string(bytes[i]) + (i < 15 ? "." : "\n");
  write_all(1, text);
}

using Action = std::function<void(const std::string&)>;

const std::map<std::string, Action, std::less<>>& actions() {
  using lockstep::ErrorKind;
  static const std::map<std::string, Action, std::less<>> table = {
      {"print", [](const std::string& text) { write_all(1, text + "\n"); }},
      {"raw", [](const std::string& text) { write_all(1, text); }},
      {"error", [](const std::string& text) { write_all(2, text + "\n"); }},
      {"fill",
       [](const std::string& count) { write_all(1, std::string(static_cast<std::size_t>(number(count)), 'x')); }},
      {"fill_error",
       [](const std::string& count) { write_all(2, std::string(static_cast<std::size_t>(number(count)), 'x')); }},
      {"lines",
       [](const std::string& count) {
         for (int i = 0; i < number(count); ++i) write_all(1, "line " + std::to_string(i) + "\n");
       }},
      {"env", print_environment},
      {"all_env", [](const std::string&) { print_all_variables(); }},
      {"state", [](const std::string&) { print_state(); }},
      {"execution", [](const std::string&) { print_execution(); }},
      {"exit", [](const std::string& code) { ::_exit(number(code)); }},
      {"sleep_ms", [](const std::string& ms) { std::this_thread::sleep_for(std::chrono::milliseconds(number(ms))); }},
      {"make", [](const std::string& file) { std::ofstream(file) << "made"; }},
      {"await",
       [](const std::string& file) {
         while (!std::filesystem::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
       }},
      {"ignore", [](const std::string& signal) { ::signal(number(signal), SIG_IGN); }},
      {"exit7_on", [](const std::string& signal) { ::signal(number(signal), [](int) { ::_exit(7); }); }},
      {"kill_self", [](const std::string& signal) { ::kill(::getpid(), number(signal)); }},
      {"kill_parent", [](const std::string& signal) { ::kill(::getppid(), number(signal)); }},
      {"note", [](const std::string& text) { leave_note(ErrorKind::io, text); }},
      {"lost_peer", [](const std::string& text) { leave_note(ErrorKind::peer_lost, text); }},
      {"ended_early", [](const std::string& text) { lockstep::cluster::report_failure(text, "ended_early"); }},
      {"leave", [](const std::string& where) { leave_behind(where == "away"); }},
  };
  return table;
}

std::string restarts() {
  return lockstep::find(lockstep::current_environment(), "TORCHELASTIC_RESTART_COUNT").value_or("0");
}

void act(const std::string& argument, const std::string& rank) {
  std::string_view rest = argument;
  if (const auto colon = rest.find(':'); colon != std::string_view::npos && colon < rest.find('=')) {
    const std::string who(rest.substr(0, colon));
    if (who != rank && who != rank + "@" + restarts()) return;
    rest.remove_prefix(colon + 1);
  }
  const auto equals = rest.find('=');
  actions().at(std::string(rest.substr(0, equals)))(std::string(rest.substr(equals + 1)));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string rank = lockstep::find(lockstep::current_environment(), "RANK").value_or("0");
  for (int i = 1; i < argc; ++i) act(argv[i], rank);
}

// `lockstep` as it is called: starts ranks where that needs no libtorch, and becomes the whole program otherwise.
// Loading libtorch takes most of a second, which the ranks would wait for.
#include <lockstep/cli/command.h>
#include <lockstep/cli/fork_start.h>
#include <lockstep/cli/programs.h>
#include <lockstep/cluster/exit_code.h>

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace {

using namespace lockstep::cli;

/// Returns when it cannot.
int become_whole_program(std::vector<std::string> words) {
  const std::string program = whole_program_beside().string();
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  fmt::print(stderr, "lockstep: error: cannot run {}: {}\n", program, std::strerror(errno));
  return kFailed;
}

int start(std::vector<std::string> words) {
  const auto done = words.empty() ? ForkStart{} : start_by_forking({words.begin() + 1, words.end()});
  if (done.exit_code) return *done.exit_code;
  if (done.spawn) words.insert(words.begin() + 2, "--start-method=spawn");
  return become_whole_program(std::move(words));
}

}  // namespace

int main(int argc, char** argv) {
  // UCX, which a newer libtorch loads with Open MPI 5, would take SIGHUP for turning on its debugging: a run would not
  // end by it.
  ::setenv("UCX_DEBUG_SIGNO", "0", /*overwrite=*/0);
  try {
    return start({argv, argv + argc});
  } catch (const std::exception& error) {
    return lockstep::cluster::end_with(error, error.what());
  }
}

// A library that a rank's program is linked against, and whose constructor does what AT_LOAD says, in order, before
// that of liblockstep runs.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

extern "C" const int lockstep_test_at_load = 1;

namespace {

bool is_fork_server() { return std::getenv("LOCKSTEP_FORK_SERVER") != nullptr; }

void act(std::string_view word) {
  if (word == "thread") {
    std::thread([] {
      while (true) ::pause();
    }).detach();
  }
  if (word == "open") ::open("/dev/null", O_RDONLY);
  if (word == "print") {
    std::puts("loading");
    std::fflush(stdout);
    std::fputs("loading noisily\n", stderr);
  }
  if (word == "buffer") std::fputs("kept in a buffer\n", stdout);
  if (word == "kill_server" && is_fork_server()) ::kill(::getpid(), SIGKILL);
  if (word == "exit_server" && is_fork_server()) ::_exit(3);
}

[[gnu::constructor]] void at_load() {
  const char* const words = std::getenv("AT_LOAD");
  if (words != nullptr) act(words);
}

}  // namespace
